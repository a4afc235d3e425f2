import java.util.ArrayList;
import java.util.List;

/**
 * Prints "KEY FIRST LAST" of each API that a broker of this release lists, with ZooKeeper or with KRaft. Kafka's
 * classes are found by name, as they have changed from release to release.
 */
public final class Listed {
    private static final String MESSAGES = "org.apache.kafka.common.message.ApiMessageType$ListenerType";

    public static void main(String[] arguments) throws ReflectiveOperationException {
        Class<?> keys = Class.forName("org.apache.kafka.common.protocol.ApiKeys");
        List<Object> brokers = brokers();
        for (Object key : keys.getEnumConstants()) {
            int first = ((Number) keys.getMethod("oldestVersion").invoke(key)).intValue();
            int last = last(keys, key);
            boolean isListed = brokers.isEmpty(); // older brokers list all that they know
            for (Object listener : brokers) {
                isListed |= (Boolean) keys.getMethod("inScope", listener.getClass()).invoke(key, listener);
            }
            if (isListed && first <= last) {
                System.out.println(keys.getField("id").get(key) + " " + first + " " + last);
            }
        }
    }

    private static List<Object> brokers() throws ReflectiveOperationException {
        List<Object> found = new ArrayList<>();
        try {
            for (Object listener : Class.forName(MESSAGES).getEnumConstants()) {
                if (listener.toString().endsWith("BROKER")) {
                    found.add(listener);
                }
            }
        } catch (ClassNotFoundException older) {
            return found;
        }
        return found;
    }

    /** The last one that does not need unstable.api.versions.enable. */
    private static int last(Class<?> keys, Object key) throws ReflectiveOperationException {
        try {
            return ((Number) keys.getMethod("latestVersion", boolean.class).invoke(key, false)).intValue();
        } catch (NoSuchMethodException older) {
            return ((Number) keys.getMethod("latestVersion").invoke(key)).intValue();
        }
    }
}

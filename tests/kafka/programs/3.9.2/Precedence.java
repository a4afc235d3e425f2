import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import kafka.server.ClientQuotaManager;
import kafka.server.QuotaType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.Sanitizer;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.config.ClientQuotaManagerConfig;
import org.apache.kafka.server.quota.ClientQuotaCallback;
import org.apache.kafka.server.quota.ClientQuotaType;
import scala.Option;

/**
 * Which quota counts for a client, and which clients share it: one line of answer for each line of
 * stdin.
 *
 * <p>A line is USER/CLIENT=RATE,... TAB USER TAB CLIENT where "-" is a part that an entity does not
 * have. The answer is RATE USER CLIENT, of the quota and of those that share it; or "none".
 */
public final class Precedence {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StringBuilder answers = new StringBuilder();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            answers.append(find(line.split("\t", -1))).append('\n');
        }
        System.out.print(answers);
    }

    private static String find(String[] parts) throws Exception {
        ClientQuotaManager manager =
                new ClientQuotaManager(
                        new ClientQuotaManagerConfig(),
                        new Metrics(),
                        QuotaType.Produce$.MODULE$,
                        Time.SYSTEM,
                        "precedence",
                        Option.empty());
        try {
            for (String entry : parts[0].split(",")) {
                String[] words = entry.split("[/=]");
                Quota quota = Quota.upperBound(Double.parseDouble(words[2]));
                manager.updateQuota(part(words[0]), part(words[1]), part(words[1]), Option.apply(quota));
            }
            Method callback = ClientQuotaManager.class.getDeclaredMethod("quotaCallback");
            callback.setAccessible(true);
            ClientQuotaCallback quotas = (ClientQuotaCallback) callback.invoke(manager);
            KafkaPrincipal user = new KafkaPrincipal(KafkaPrincipal.USER_TYPE, parts[1]);
            Map<String, String> shared =
                    quotas.quotaMetricTags(ClientQuotaType.PRODUCE, user, parts[2]);
            Double limit = quotas.quotaLimit(ClientQuotaType.PRODUCE, shared);
            if (limit == null || limit > 1e15) {
                return "none";
            }
            return limit + "\t" + shared.get("user") + "\t" + shared.get("client-id");
        } finally {
            manager.shutdown();
        }
    }

    private static Option<String> part(String word) {
        if (word.equals("-")) {
            return Option.empty();
        }
        return Option.apply(word.startsWith("<") ? word : Sanitizer.sanitize(word));
    }
}

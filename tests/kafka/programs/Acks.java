import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.Semaphore;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * SERVERS TOPIC PER_SECOND name=value...: sends 0, 1, 2, ... as text to partition 0 from one producer
 * until there is something on stdin, then flushes. Prints "acked N" or "failed N reason" as the answers come and at
 * last "sent N", the count.
 */
public final class Acks {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        String topic = arguments[1];
        int perSecond = Integer.parseInt(arguments[2]);
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", arguments[0]);
        for (int i = 3; i < arguments.length; i++) {
            int equals = arguments[i].indexOf('=');
            config.put(arguments[i].substring(0, equals), arguments[i].substring(equals + 1));
        }
        Semaphore unanswered = new Semaphore(5000);
        int sent = 0;
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
            long started = System.nanoTime();
            while (System.in.available() == 0) {
                unanswered.acquire();
                int number = sent++;
                byte[] value = Integer.toString(number).getBytes(StandardCharsets.UTF_8);
                producer.send(new ProducerRecord<>(topic, 0, null, value), (metadata, error) -> {
                    unanswered.release();
                    out.println(error == null ? "acked " + number : "failed " + number + " " + error);
                });
                long ahead = started + 1_000_000_000L * sent / perSecond - System.nanoTime();
                if (ahead > 1_000_000) {
                    Thread.sleep(ahead / 1_000_000);
                }
            }
        }
        out.println("sent " + sent);
    }
}

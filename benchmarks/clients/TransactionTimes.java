import java.util.Arrays;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * SERVERS TOPIC TRANSACTIONAL_ID SIZE COUNT: writes COUNT transactions of SIZE records of 100 bytes, and then
 * as many again; prints the latter's transactions per second, and the median and the 99th percentile in ms.
 */
public final class TransactionTimes {
    public static void main(String[] arguments) {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", arguments[0]);
        config.put("transactional.id", arguments[2]);
        String topic = arguments[1];
        int size = Integer.parseInt(arguments[3]);
        int count = Integer.parseInt(arguments[4]);
        long[] tookNs = new long[count];
        byte[] value = new byte[100];
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
            producer.initTransactions();
            for (int number = 0; number < 2 * count; number++) {
                long beginNs = System.nanoTime();
                producer.beginTransaction();
                for (int record = 0; record < size; record++) {
                    producer.send(new ProducerRecord<>(topic, value));
                }
                // Without it, 4.3.1 once in ten thousand times sends EndTxn and not the record.
                producer.flush();
                producer.commitTransaction();
                tookNs[number % count] = System.nanoTime() - beginNs;
            }
        }
        Arrays.sort(tookNs);
        double sumS = Arrays.stream(tookNs).sum() / 1e9;
        System.out.printf(
                Locale.ROOT,
                "{\"per_s\": %f, \"p50_ms\": %f, \"p99_ms\": %f}%n",
                count / sumS,
                tookNs[count / 2] / 1e6,
                tookNs[(int) (0.99 * count)] / 1e6);
    }

    private TransactionTimes() {
    }
}

import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Kafka's Java consumer by assignment, with its defaults: partition 0 from the beginning, a number
 * of records, after all of them were read once to warm up the client.
 */
public class BulkConsume {
    public static void main(String[] args) {
        String bootstrap = args[0];
        TopicPartition partition = new TopicPartition(args[1], 0);
        long records = Long.parseLong(args[2]);
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("enable.auto.commit", "false");
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings, bytes, bytes)) {
            consumer.assign(List.of(partition));
            read(consumer, partition, records);
            double rate = read(consumer, partition, records);
            System.out.printf("{\"rate\": %.1f}%n", rate);
        }
    }

    private static double read(
            KafkaConsumer<byte[], byte[]> consumer, TopicPartition partition, long records) {
        consumer.seekToBeginning(List.of(partition));
        long seen = 0;
        long sizeBytes = 0;
        long began = System.nanoTime();
        long deadline = began + Duration.ofMinutes(2).toNanos();
        while (seen < records) {
            ConsumerRecords<byte[], byte[]> polled = consumer.poll(Duration.ofSeconds(1));
            for (ConsumerRecord<byte[], byte[]> record : polled) {
                sizeBytes += record.value().length;
            }
            seen += polled.count();
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException("only " + seen + " of " + records + " records");
            }
        }
        return sizeBytes / ((System.nanoTime() - began) / 1e9);
    }
}

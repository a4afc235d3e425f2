import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * SERVERS TOPIC PARTITIONS RACK: reads all partitions from their beginnings until there is something on stdin.
 * Record number n of a partition has to begin with n as text and a space; else it ends with exit code 1.
 * Prints how many records it has read, over all, whenever that is more than before.
 */
public final class NearReader {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        List<TopicPartition> partitions = new ArrayList<>();
        for (int partition = 0; partition < Integer.parseInt(arguments[2]); partition++) {
            partitions.add(new TopicPartition(arguments[1], partition));
        }
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", arguments[0]);
        config.put("client.rack", arguments[3]);
        config.put("auto.offset.reset", "none");
        config.put("max.partition.fetch.bytes", "262144");
        config.put("fetch.max.bytes", "1048576");
        config.put("reconnect.backoff.max.ms", "200");
        config.put("request.timeout.ms", "5000");
        Map<Integer, Long> next = new HashMap<>();
        long read = 0;
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(partitions);
            for (TopicPartition partition : partitions) {
                consumer.seek(partition, 0);
            }
            while (System.in.available() == 0) {
                long before = read;
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                    long wanted = next.getOrDefault(record.partition(), 0L);
                    String value = new String(record.value(), 0, 16, StandardCharsets.US_ASCII);
                    if (record.offset() != wanted || !value.startsWith(wanted + " ")) {
                        out.println("wanted " + wanted + " got " + record.offset() + " " + value);
                        System.exit(1);
                    }
                    next.put(record.partition(), wanted + 1);
                    read++;
                }
                if (read > before) {
                    out.println(read);
                }
            }
        }
    }
}

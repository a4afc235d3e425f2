import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.HashMap;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Writes and reads records by partition, byte for byte, one line each:
 * topic TAB partition TAB timestamp TAB key TAB value TAB name:value,name:value
 * where every key, value and header part is "=" and base64, or "-" for null; partition -1 leaves the
 * choice to the producer, timestamp -1 the time.
 *
 * <p>write SERVERS: lines on stdin; a line "config TAB name=value TAB ..." closes the producer and
 * opens one with these settings. Prints "topic TAB partition TAB offset" per record, in order.
 * read SERVERS TOPIC PARTITION COUNT [PARTITION COUNT ...]: prints the first COUNT records of each
 * partition, after an offset column.
 */
public final class Records {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        if (arguments[0].equals("write")) {
            write(arguments[1], out);
        } else {
            read(arguments, out);
        }
        out.flush();
    }

    private static void write(String servers, PrintStream out) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        KafkaProducer<byte[], byte[]> producer = null;
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] fields = line.split("\t", -1);
            if (fields[0].equals("config")) {
                if (producer != null) {
                    producer.close();
                }
                producer = open(servers, fields);
            } else {
                sent.add(producer.send(record(fields)));
            }
        }
        producer.close();
        for (Future<RecordMetadata> future : sent) {
            RecordMetadata metadata = future.get();
            out.println(metadata.topic() + "\t" + metadata.partition() + "\t" + metadata.offset());
        }
    }

    private static KafkaProducer<byte[], byte[]> open(String servers, String[] fields) {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", servers);
        for (int i = 1; i < fields.length; i++) {
            int equals = fields[i].indexOf('=');
            config.put(fields[i].substring(0, equals), fields[i].substring(equals + 1));
        }
        return new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private static ProducerRecord<byte[], byte[]> record(String[] fields) {
        List<Header> headers = new ArrayList<>();
        for (String header : fields[5].isEmpty() ? new String[0] : fields[5].split(",")) {
            String[] parts = header.split(":");
            headers.add(new RecordHeader(new String(bytes(parts[0]), StandardCharsets.UTF_8), bytes(parts[1])));
        }
        Integer partition = fields[1].equals("-1") ? null : Integer.valueOf(fields[1]);
        Long timestamp = fields[2].equals("-1") ? null : Long.valueOf(fields[2]);
        return new ProducerRecord<>(
                fields[0], partition, timestamp, bytes(fields[3]), bytes(fields[4]), headers);
    }

    private static void read(String[] arguments, PrintStream out) {
        String topic = arguments[2];
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", arguments[1]);
        config.put("allow.auto.create.topics", "false");
        Map<TopicPartition, Long> wanted = new HashMap<>();
        for (int i = 3; i + 1 < arguments.length; i += 2) {
            wanted.put(new TopicPartition(topic, Integer.parseInt(arguments[i])), Long.valueOf(arguments[i + 1]));
        }
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(wanted.keySet());
            consumer.seekToBeginning(wanted.keySet());
            long left = wanted.values().stream().mapToLong(Long::longValue).sum();
            long deadline = System.nanoTime() + Duration.ofSeconds(60).toNanos();
            while (left > 0 && System.nanoTime() < deadline) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    TopicPartition partition = new TopicPartition(record.topic(), record.partition());
                    if (wanted.merge(partition, -1L, Long::sum) >= 0) {
                        left--;
                        print(record, out);
                    }
                }
            }
        }
    }

    private static void print(ConsumerRecord<byte[], byte[]> record, PrintStream out) {
        StringBuilder headers = new StringBuilder();
        for (Header header : record.headers()) {
            headers.append(headers.length() == 0 ? "" : ",")
                    .append(text(header.key().getBytes(StandardCharsets.UTF_8)))
                    .append(':')
                    .append(text(header.value()));
        }
        out.println(record.offset() + "\t" + record.topic() + "\t" + record.partition() + "\t"
                + record.timestamp() + "\t" + text(record.key()) + "\t" + text(record.value()) + "\t" + headers);
    }

    /** Base64 with "=" in front, so that empty differs from null. */
    private static String text(byte[] bytes) {
        return bytes == null ? "-" : "=" + Base64.getEncoder().encodeToString(bytes);
    }

    private static byte[] bytes(String text) {
        return text.equals("-") ? null : Base64.getDecoder().decode(text.substring(1));
    }
}

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * SERVERS: does what the lines on stdin say, with tabs between their words, and answers each with a line:
 * "ok" with what there is to tell, or "failed" with the name of the exception. P names a producer.
 * open P TRANSACTIONAL_ID TIMEOUT_MS; begin P; send P TOPIC PARTITION VALUE, until it is acknowledged;
 * offsets P GROUP TOPIC PARTITION OFFSET; commit P; abort P; close P;
 * read TOPIC PARTITION ISOLATION_LEVEL LAST: the values from the beginning until LAST has come.
 */
public final class Transactions {
    private final String servers;
    private final Map<String, KafkaProducer<String, String>> producers = new HashMap<>();

    private Transactions(String servers) {
        this.servers = servers;
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Transactions all = new Transactions(arguments[0]);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String answer;
            try {
                answer = "ok" + all.run(line.split("\t", -1));
            } catch (ExecutionException failed) {
                answer = "failed " + failed.getCause().getClass().getSimpleName();
            } catch (RuntimeException failed) {
                answer = "failed " + failed.getClass().getSimpleName();
            }
            out.println(answer);
        }
        Runtime.getRuntime().halt(0);
    }

    private String run(String[] words) throws Exception {
        if (words[0].equals("read")) {
            return read(new TopicPartition(words[1], Integer.parseInt(words[2])), words[3], words[4]);
        }
        if (words[0].equals("open")) {
            producers.put(words[1], open(words[2], words[3]));
            producers.get(words[1]).initTransactions();
            return "";
        }
        KafkaProducer<String, String> producer = producers.get(words[1]);
        switch (words[0]) {
            case "begin":
                producer.beginTransaction();
                break;
            case "send":
                producer.send(new ProducerRecord<>(words[2], Integer.parseInt(words[3]), null, words[4])).get();
                break;
            case "offsets":
                TopicPartition partition = new TopicPartition(words[3], Integer.parseInt(words[4]));
                OffsetAndMetadata offset = new OffsetAndMetadata(Long.parseLong(words[5]));
                try (KafkaConsumer<String, String> consumer = consumer(Map.of("group.id", words[2]))) {
                    producer.sendOffsetsToTransaction(Map.of(partition, offset), consumer.groupMetadata());
                }
                break;
            case "commit":
                producer.commitTransaction();
                break;
            case "abort":
                producer.abortTransaction();
                break;
            case "close":
                producer.close(Duration.ofSeconds(1));
                break;
            default:
                throw new IllegalArgumentException(words[0]);
        }
        return "";
    }

    private KafkaProducer<String, String> open(String transactionalId, String timeoutMs) {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", servers);
        config.put("transactional.id", transactionalId);
        config.put("transaction.timeout.ms", timeoutMs);
        return new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
    }

    private KafkaConsumer<String, String> consumer(Map<String, Object> more) {
        Map<String, Object> config = new HashMap<>(more);
        config.put("bootstrap.servers", servers);
        return new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
    }

    private String read(TopicPartition partition, String isolationLevel, String last) {
        List<String> found = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = consumer(Map.of("isolation.level", isolationLevel))) {
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            long deadline = System.nanoTime() + Duration.ofSeconds(60).toNanos();
            while (!found.contains(last) && System.nanoTime() < deadline) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    found.add(record.value());
                }
            }
        }
        return "\t" + String.join("\t", found);
    }
}

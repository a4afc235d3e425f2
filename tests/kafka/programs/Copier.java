import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** SERVERS GROUP FROM TO TRANSACTIONAL_ID: does what tests/wire/copier.py does, and prints the same. */
public final class Copier {
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    private static volatile boolean ending;

    public static void main(String[] arguments) throws Exception {
        CountDownLatch closed = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            ending = true;
            try {
                closed.await();
            } catch (InterruptedException ignored) {
                Thread.currentThread().interrupt();
            }
        }));
        try {
            run(arguments);
        } catch (Throwable failed) {
            OUT.println("failed " + failed);
            closed.countDown();
            Runtime.getRuntime().halt(1);
        }
        OUT.println("ended");
        closed.countDown();
    }

    private static void run(String[] arguments) {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", arguments[0]);
        config.put("reconnect.backoff.max.ms", "100");
        Map<String, Object> consuming = new HashMap<>(config);
        consuming.put("group.id", arguments[1]);
        consuming.put("isolation.level", "read_committed");
        consuming.put("auto.offset.reset", "earliest");
        consuming.put("enable.auto.commit", "false");
        consuming.put("session.timeout.ms", "1500");
        consuming.put("heartbeat.interval.ms", "100");
        consuming.put("max.poll.records", "100");
        Map<String, Object> producing = new HashMap<>(config);
        producing.put("transactional.id", arguments[4]);
        KafkaProducer<byte[], byte[]> producer = opened(producing);
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(consuming, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(arguments[2]));
            while (!ending) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(100));
                if (records.isEmpty()) {
                    continue;
                }
                try {
                    copy(consumer, producer, records, arguments[3]);
                    OUT.println("committed " + records.count());
                } catch (KafkaException failed) {
                    OUT.println("aborted " + failed);
                    producer = aborted(producer, producing);
                    rewind(consumer);
                }
            }
        } finally {
            producer.close();
        }
    }

    private static KafkaProducer<byte[], byte[]> opened(Map<String, Object> config) {
        KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
        producer.initTransactions();
        return producer;
    }

    /** The producer to go on with: another one, which aborts what this one has begun, if this one can't. */
    private static KafkaProducer<byte[], byte[]> aborted(
            KafkaProducer<byte[], byte[]> producer, Map<String, Object> config) {
        try {
            producer.abortTransaction();
            return producer;
        } catch (KafkaException fatal) {
            OUT.println("reopened " + fatal);
            producer.close(Duration.ZERO);
            return opened(config);
        }
    }

    private static void copy(
            KafkaConsumer<byte[], byte[]> consumer,
            KafkaProducer<byte[], byte[]> producer,
            ConsumerRecords<byte[], byte[]> records,
            String target) {
        producer.beginTransaction();
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (ConsumerRecord<byte[], byte[]> record : records) {
            producer.send(new ProducerRecord<>(target, record.partition(), null, record.value()));
            TopicPartition partition = new TopicPartition(record.topic(), record.partition());
            offsets.put(partition, new OffsetAndMetadata(record.offset() + 1));
        }
        producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
        producer.commitTransaction();
    }

    /** Goes back to what the group has committed. */
    private static void rewind(KafkaConsumer<byte[], byte[]> consumer) {
        consumer.committed(consumer.assignment()).forEach((partition, committed) -> {
            if (committed == null) {
                consumer.seekToBeginning(List.of(partition));
            } else {
                consumer.seek(partition, committed);
            }
        });
    }
}

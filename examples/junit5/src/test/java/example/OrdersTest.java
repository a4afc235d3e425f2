package example;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.RegisterExtension;

/** What a client does if a broker fails: {@code mvn test}, or {@code odradek run -- mvn test}. */
@Timeout(60)
class OrdersTest {
    @RegisterExtension
    static final Odradek odradek = new Odradek();

    @BeforeEach
    void topic() throws Exception {
        odradek.createTopic("orders");
    }

    @Test
    void aNewLeaderIsFound() throws Exception {
        odradek.addFault(Map.of("api", "Produce", "topic", "orders", "times", 2, "error", "NOT_LEADER_OR_FOLLOWER"));
        send(Map.of());
        assertEquals(List.of("order"), odradek.values("orders"));
        assertEquals(3, odradek.requests("Produce"));
    }

    @Test
    void aLateAnswerIsSentAgain() throws Exception {
        odradek.addFault(Map.of("api", "Produce", "topic", "orders", "times", 1, "delay", "3s"));
        send(Map.of("request.timeout.ms", 500, "enable.idempotence", false));
        assertEquals(List.of("order", "order"), odradek.values("orders"));
    }

    @Test
    void aFencedProducerCannotCommit() throws Exception {
        odradek.addFault(Map.of("api", "EndTxn", "transactional_id", "billing", "error", "PRODUCER_FENCED"));
        assertThrows(ProducerFencedException.class, this::transact);
    }

    @Test
    void aMemberThatWasReplacedCannotCommit() throws Exception {
        send(Map.of());
        try (var consumer = consumer()) {
            assertEquals(List.of("order"), read(consumer, 1));
            odradek.addFault(
                Map.of("api", "OffsetCommit", "group", "billing", "times", 1, "error", "ILLEGAL_GENERATION"));
            assertThrows(CommitFailedException.class, consumer::commitSync);
        }
    }

    private static void send(Map<String, ?> more) throws Exception {
        try (var producer = producer(more)) {
            producer.send(new ProducerRecord<>("orders", "order")).get();
        }
    }

    private void transact() {
        try (var producer = producer(Map.of("transactional.id", "billing"))) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>("orders", "order"));
            producer.commitTransaction();
        }
    }

    private static KafkaProducer<String, String> producer(Map<String, ?> more) {
        Map<String, Object> config = new HashMap<>(more);
        config.put("bootstrap.servers", odradek.bootstrapServers());
        return new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
    }

    private static KafkaConsumer<String, String> consumer() {
        var consumer = new KafkaConsumer<>(
            Map.<String, Object>of(
                "bootstrap.servers", odradek.bootstrapServers(),
                "group.id", "billing",
                "enable.auto.commit", false,
                "auto.offset.reset", "earliest"),
            new StringDeserializer(),
            new StringDeserializer());
        consumer.subscribe(List.of("orders"));
        return consumer;
    }

    private static List<String> read(KafkaConsumer<String, String> consumer, int count) {
        List<String> found = new ArrayList<>();
        while (found.size() < count) {
            consumer.poll(Duration.ofMillis(100)).forEach(record -> found.add(record.value()));
        }
        return found;
    }
}

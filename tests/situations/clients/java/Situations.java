import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Kafka's Java client in situations. SERVERS ADMIN_URL; each line of stdin is a deed and rules as JSON, parted by tabs.
 * Prints a line for each: "done", or "failed" with Kafka's error code or the name of an exception.
 */
public final class Situations {
    private static final List<String> VALUES = List.of("0", "1", "2");
    private static final Duration TIMEOUT = Duration.ofSeconds(20);
    private static final HttpClient HTTP = HttpClient.newHttpClient();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t");
            for (int i = 1; i < words.length; i++) {
                addRule(arguments[1], words[i]);
            }
            System.out.println(outcome(words[0], arguments[0]));
        }
    }

    private static void addRule(String adminUrl, String rule) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create(adminUrl + "/admin/v1/faults"))
                .header("Content-Type", "application/json")
                .POST(HttpRequest.BodyPublishers.ofString(rule)).build();
        if (HTTP.send(request, HttpResponse.BodyHandlers.ofString()).statusCode() != 201) {
            throw new IllegalArgumentException(rule);
        }
    }

    private static String outcome(String deed, String servers) {
        try {
            switch (deed) {
                case "produce": produce(servers, Map.of("enable.idempotence", "false")); return "done";
                case "idempotent": produce(servers, Map.of("enable.idempotence", "true")); return "done";
                case "transact": transact(servers); return "done";
                default: return consume(servers);
            }
        } catch (Exception error) {
            error.printStackTrace();
            Throwable cause = error instanceof java.util.concurrent.ExecutionException ? error.getCause() : error;
            Errors known = Errors.forException(cause);
            boolean isKnown = known != Errors.UNKNOWN_SERVER_ERROR;
            return "failed " + (isKnown ? String.valueOf(known.code()) : cause.getClass().getSimpleName());
        }
    }

    private static KafkaProducer<String, String> producer(String servers, Map<String, Object> more) {
        Map<String, Object> config = common(servers);
        config.put("acks", "all");
        config.put("linger.ms", 0);
        config.put("request.timeout.ms", 3000);
        config.put("delivery.timeout.ms", 20_000);
        config.put("max.block.ms", 20_000);
        config.putAll(more);
        return new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
    }

    private static Map<String, Object> common(String servers) {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", servers);
        config.put("retry.backoff.ms", 20);
        config.put("reconnect.backoff.ms", 20);
        return config;
    }

    /** Writes one after another: the first failure ends it. */
    private static void write(KafkaProducer<String, String> producer) throws Exception {
        for (String value : VALUES) {
            producer.send(new ProducerRecord<>("t", value)).get();
        }
    }

    private static void produce(String servers, Map<String, Object> config) throws Exception {
        try (KafkaProducer<String, String> producer = producer(servers, config)) {
            write(producer);
        }
    }

    private static void transact(String servers) throws Exception {
        KafkaProducer<String, String> producer = producer(servers, Map.of("transactional.id", "x"));
        try {
            producer.initTransactions();
            producer.beginTransaction();
            write(producer);
            producer.commitTransaction();
        } finally {
            producer.close(Duration.ofSeconds(1));
        }
    }

    private static String consume(String servers) {
        Map<String, Object> config = common(servers);
        config.put("group.id", "g");
        config.put("auto.offset.reset", "earliest");
        config.put("enable.auto.commit", "false");
        config.put("session.timeout.ms", 6000);
        config.put("request.timeout.ms", 3000);
        config.put("default.api.timeout.ms", 20_000);
        config.put("fetch.max.wait.ms", 200);
        StringBuilder done = new StringBuilder("done");
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of("t"));
            long end = System.nanoTime() + TIMEOUT.toNanos();
            for (int found = 0; found < VALUES.size() && System.nanoTime() < end;) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    done.append(' ').append(record.value());
                    found++;
                }
            }
            consumer.commitSync();
        }
        return done.toString();
    }
}

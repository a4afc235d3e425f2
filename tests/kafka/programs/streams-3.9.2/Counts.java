import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/**
 * SERVERS FROM TO STATE_DIR: Kafka Streams with exactly_once_v2 counts how often each value comes in FROM, and
 * writes each count to TO, with the value as its key. It shuffles through a topic of its own and keeps the counts in
 * RocksDB, so a restart finds them in STATE_DIR or restores them. Prints its states, and ends at SIGTERM.
 */
public final class Counts {
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    public static void main(String[] arguments) throws Exception {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(arguments[1], Consumed.with(Serdes.String(), Serdes.String()))
                .groupBy((key, value) -> value, Grouped.as("words"))
                .count(Materialized.as("counts"))
                .toStream()
                .mapValues(count -> Long.toString(count))
                .to(arguments[2], Produced.with(Serdes.String(), Serdes.String()));
        CountDownLatch ended = new CountDownLatch(1);
        KafkaStreams streams = new KafkaStreams(builder.build(), config(arguments[0], arguments[3]));
        streams.setStateListener((now, before) -> OUT.println(now));
        streams.setUncaughtExceptionHandler(failed -> {
            failed.printStackTrace(OUT);
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            streams.close(Duration.ofSeconds(20));
            ended.countDown();
        }));
        streams.start();
        ended.await();
    }

    private static Properties config(String servers, String stateDir) {
        Properties config = new Properties();
        config.put("application.id", "counts");
        config.put("bootstrap.servers", servers);
        config.put("state.dir", stateDir);
        config.put("processing.guarantee", "exactly_once_v2");
        config.put("default.key.serde", Serdes.StringSerde.class);
        config.put("default.value.serde", Serdes.StringSerde.class);
        config.put("statestore.cache.max.bytes", "0"); // each count is written
        config.put("commit.interval.ms", "100");
        config.put("num.stream.threads", "2");
        config.put("reconnect.backoff.max.ms", "100");
        config.put("consumer.session.timeout.ms", "3000");
        config.put("consumer.heartbeat.interval.ms", "100");
        config.put("main.consumer.max.poll.records", "200");
        return config;
    }
}

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;
import kafka.utils.QuotaUtils;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.MeasurableStat;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.metrics.QuotaViolationException;
import org.apache.kafka.common.metrics.Sensor;
import org.apache.kafka.common.metrics.stats.Rate;
import org.apache.kafka.common.metrics.stats.SimpleRate;
import org.apache.kafka.common.metrics.stats.TokenBucket;

/**
 * Records values with Kafka's own sensors: one line of answer for each line of stdin.
 *
 * <p>A line is KIND TAB SAMPLES TAB WINDOW_MS TAB BOUND TAB NOW_MS:VALUE,... where KIND is full,
 * simple, permissive or strict. The answer is MEASURED:THROTTLE_MS for each value, in order. With
 * strict a value that is refused is not recorded.
 */
public final class Rates {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StringBuilder answers = new StringBuilder();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            answers.append(record(line.split("\t", -1))).append('\n');
        }
        System.out.print(answers);
    }

    private static String record(String[] parts) {
        String kind = parts[0];
        try (Metrics metrics = new Metrics()) {
            MetricConfig config =
                    new MetricConfig()
                            .samples(Integer.parseInt(parts[1]))
                            .timeWindow(Long.parseLong(parts[2]), TimeUnit.MILLISECONDS)
                            .quota(new Quota(Double.parseDouble(parts[3]), true));
            MetricName name = metrics.metricName("rate", "quota");
            Sensor sensor = metrics.sensor("quota");
            sensor.add(name, stat(kind), config);
            KafkaMetric metric = metrics.metric(name);
            StringBuilder answers = new StringBuilder();
            for (String step : parts[4].split(",")) {
                String[] words = step.split(":");
                long nowMs = Long.parseLong(words[0]);
                long throttleMs = throttleMs(sensor, Double.parseDouble(words[1]), nowMs, kind);
                double measured = metric.measurable().measure(config, nowMs);
                answers.append(measured).append(':').append(throttleMs).append(' ');
            }
            return answers.toString();
        }
    }

    private static MeasurableStat stat(String kind) {
        return switch (kind) {
            case "full" -> new Rate();
            case "simple" -> new SimpleRate();
            default -> new TokenBucket();
        };
    }

    private static long throttleMs(Sensor sensor, double value, long nowMs, String kind) {
        try {
            if (kind.equals("strict")) {
                sensor.checkQuotas(nowMs);
                sensor.record(value, nowMs, false);
            } else {
                sensor.record(value, nowMs, true);
            }
            return 0;
        } catch (QuotaViolationException error) {
            if (error.metric().measurable() instanceof TokenBucket) {
                return Math.round(-error.value() / error.bound() * 1000);
            }
            return QuotaUtils.throttleTime(error, nowMs);
        }
    }
}

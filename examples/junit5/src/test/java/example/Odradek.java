package example;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Assertions;
import org.junit.jupiter.api.extension.AfterAllCallback;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;

/**
 * A broker for the tests of a class, which each find it as it was at its start: {@code @RegisterExtension static
 * final Odradek odradek = new Odradek();}.
 *
 * <p>It is the one of `odradek run`, or else a child of this process. The child ends with its standard input, that is
 * at the latest when this process ends.
 */
public class Odradek implements BeforeAllCallback, BeforeEachCallback, AfterEachCallback, AfterAllCallback {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String READY = "odradek ready: PLAINTEXT://";
    private static final String ADMIN = "odradek admin: ";
    private final HttpClient http = HttpClient.newHttpClient();
    private final List<String> faults = new ArrayList<>();
    private Process child;
    private String bootstrapServers;
    private String adminUrl;
    private String start;

    public String bootstrapServers() {
        return bootstrapServers;
    }

    /** Creates a topic with one partition. */
    public void createTopic(String name) throws Exception {
        post("topics", Map.of("name", name));
    }

    /** Adds a rule, which must act before the test ends. */
    public void addFault(Map<String, ?> rule) throws Exception {
        faults.add(post("faults", rule).get("id").asText());
    }

    /** The values of a topic. */
    public List<String> values(String topic) throws Exception {
        List<String> found = new ArrayList<>();
        get("topics/" + topic + "/records").get("records").forEach(each -> found.add(each.get("value").asText()));
        return found;
    }

    /** How many requests of an API clients have sent in this test. */
    public int requests(String api) throws Exception {
        return get("journal?api=" + api).get("requests").size();
    }

    public JsonNode get(String path) throws Exception {
        return ask(path, HttpRequest.newBuilder().GET());
    }

    public JsonNode post(String path, Map<String, ?> fields) throws Exception {
        return ask(path, HttpRequest.newBuilder()
            .header("Content-Type", "application/json")
            .POST(BodyPublishers.ofString(JSON.writeValueAsString(fields))));
    }

    private JsonNode delete(String path) throws Exception {
        return ask(path, HttpRequest.newBuilder().DELETE());
    }

    private JsonNode ask(String path, HttpRequest.Builder request) throws Exception {
        URI uri = URI.create(adminUrl.replaceAll("/$", "") + "/admin/v1/" + path);
        var answer = http.send(request.uri(uri).build(), BodyHandlers.ofString());
        JsonNode content = JSON.readTree(answer.body());
        if (answer.statusCode() >= 400) {
            throw new IOException(path + ": " + content.get("error").asText());
        }
        return content;
    }

    @Override
    public void beforeAll(ExtensionContext context) throws Exception {
        bootstrapServers = System.getenv("KAFKA_BOOTSTRAP_SERVERS");
        adminUrl = System.getenv("ODRADEK_ADMIN_URL");
        if (adminUrl == null) {
            startChild();
        }
        start = post("snapshots", Map.of()).get("id").asText();
    }

    @Override
    public void beforeEach(ExtensionContext context) throws Exception {
        post("snapshots/" + start + "/restore", Map.of("forgets_requests", true));
    }

    @Override
    public void afterEach(ExtensionContext context) throws Exception {
        List<String> unused = new ArrayList<>();
        for (String id : faults) {
            JsonNode fault = get("faults/" + id);
            if (fault.get("hits").asInt() == 0) {
                unused.add(fault.toString());
            }
        }
        faults.clear();
        delete("faults");
        Assertions.assertEquals(List.of(), unused, "rules that never acted");
    }

    @Override
    public void afterAll(ExtensionContext context) throws Exception {
        if (child != null) {
            child.getOutputStream().close();
            child.waitFor();
        } else {
            delete("snapshots/" + start);
        }
    }

    private void startChild() throws IOException {
        String directory = Files.createTempDirectory("odradek").toString();
        child = new ProcessBuilder(
                "odradek", "serve", "--stop-with-stdin", "--data-dir", directory, "--listen", "127.0.0.1:0",
                "--admin", "127.0.0.1:0", "--log-level", "warning", "--set", "odradek.fsync=false",
                "--set", "group.initial.rebalance.delay.ms=0")
            .redirectError(ProcessBuilder.Redirect.INHERIT)
            .start();
        BufferedReader lines = new BufferedReader(new InputStreamReader(child.getInputStream()));
        bootstrapServers = after(READY, lines.readLine()).split(" ")[0];
        adminUrl = after(ADMIN, lines.readLine());
    }

    private static String after(String start, String line) throws IOException {
        if (line == null || !line.startsWith(start)) {
            throw new IOException("odradek did not start: " + line);
        }
        return line.substring(start.length());
    }
}

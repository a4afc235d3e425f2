import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;

/** Drives brokers by the admin API, with what a JDK has: `java AdminApi.java URL`. */
public class AdminApi {
    private static final HttpClient HTTP = HttpClient.newHttpClient();
    private static String url;

    public static void main(String[] arguments) throws Exception {
        url = arguments[0] + "/admin/v1/";
        post("topics", "{\"name\": \"t\", \"replication_factor\": 2}");
        post("topics/t/records", "{\"records\": [{\"key\": \"k\", \"value\": \"é\"}]}");
        get("topics/t/records");
        post("brokers/1/kill", "{\"expire\": true}");
        post("brokers/1/start", "");
        post("brokers/1/stop", "{\"now\": true}");
        get("groups/nosuch");
    }

    private static void get(String path) throws IOException, InterruptedException {
        send(path, HttpRequest.newBuilder().GET());
    }

    private static void post(String path, String json) throws IOException, InterruptedException {
        send(path, HttpRequest.newBuilder()
            .header("Content-Type", "application/json")
            .POST(BodyPublishers.ofString(json)));
    }

    private static void send(String path, HttpRequest.Builder request)
            throws IOException, InterruptedException {
        var answer = HTTP.send(request.uri(URI.create(url + path)).build(), BodyHandlers.ofString());
        System.out.println(answer.statusCode() + " " + answer.body());
    }
}

/* Asks by java.net.http, which offers HTTP/2 with what it sends without TLS: two forms, with a length and in chunks, and a page. */

import java.io.ByteArrayInputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;

public class Ask {
    public static void main(String[] roots) throws Exception {
        var client = HttpClient.newHttpClient();
        for (String root : roots) {
            var form = HttpRequest.newBuilder(URI.create(root + "/-/oai"))
                .header("content-type", "application/x-www-form-urlencoded");
            var sent = new HttpRequest[] {
                form.copy().POST(BodyPublishers.ofString("verb=Identify")).build(),
                form.copy().POST(BodyPublishers.ofInputStream(
                    () -> new ByteArrayInputStream("verb=ListSets".getBytes()))).build(),
                HttpRequest.newBuilder(URI.create(root + "/-/oai?verb=ListMetadataFormats")).build(),
            };
            for (var request : sent) {
                var answer = client.send(request, HttpResponse.BodyHandlers.ofString());
                var verb = answer.body().replaceAll("(?s).*<request verb=\"([A-Za-z]+)\".*", "$1");
                System.out.println(answer.statusCode() + " " + answer.version() + " " + verb);
            }
        }
    }
}

package aggregate_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

// talk takes over the connection of a request, as exec of a pod does, and answers each line.
func talk(w http.ResponseWriter, _ *http.Request, s *Sample) error {
	connection, lines, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return err
	}
	defer connection.Close()
	fmt.Fprint(connection, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: talk\r\n\r\n")
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return nil // the client has gone
		}
		fmt.Fprintf(connection, "%s hears %s", s.Name, line)
	}
}

// testUpgrade talks with a subresource in both directions, through kube-apiserver.
func testUpgrade(f *bench) {
	_, err := f.create(f.namespace, "anna")
	f.ok(err)
	config, err := rest.TLSConfigFor(f.cluster.Config())
	f.ok(err)
	connection, err := tls.Dial("tcp", strings.TrimPrefix(f.cluster.Config().Host, "https://"), config)
	f.ok(err)
	defer connection.Close()
	f.ok(connection.SetDeadline(time.Now().Add(time.Minute)))
	req, err := http.NewRequestWithContext(f.Context(), http.MethodGet, f.cluster.Config().Host+f.path(group, "/anna/talk"), http.NoBody)
	f.ok(err)
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "talk")
	f.ok(req.Write(connection))
	lines := bufio.NewReader(connection)
	resp, err := http.ReadResponse(lines, req)
	f.ok(err)
	if resp.StatusCode != http.StatusSwitchingProtocols {
		f.Fatalf("the answer is %s", resp.Status)
	}
	for _, text := range []string{"one\n", "two\n"} {
		fmt.Fprint(connection, text)
		if line, err := lines.ReadString('\n'); err != nil || line != "anna hears "+text {
			f.Errorf("%q, %v", line, err)
		}
	}
}

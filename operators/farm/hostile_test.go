package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
)

// limit is the memory that the manifests give to the program, in MB.
const limit = 512

// TestBombs sends each hostile object from eight clients at once.
func TestBombs(t *testing.T) { bombs(t, 1) }

// TestSoakBombs repeats that.
func TestSoakBombs(t *testing.T) { bombs(t, 5) }

// bombs sends objects of many keys, of great depth, and of almost 3 MB, eight at a time. The
// program stays within the memory that its manifests give it, and serves llamas after that.
func bombs(t *testing.T, rounds int) {
	for _, m := range binary.Manifests(t) {
		if soft := regexp.MustCompile(`name: GOMEMLIMIT\s+value: "?(\w+)`).FindSubmatch(m.YAML); soft != nil {
			t.Setenv("GOMEMLIMIT", string(soft[1]))
		}
	}
	f := newFarmOf(t, &shipped)
	config := f.cluster.Config()
	certificates, err := rest.TLSConfigFor(config)
	f.ok(err)
	transport := &http.Transport{TLSClientConfig: certificates}
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transport}
	path := config.Host + "/apis/" + group + "/" + version + "/namespaces/" + f.namespace + "/llamas"
	var keys strings.Builder
	for i := range 200_000 {
		fmt.Fprintf(&keys, `"k%d":1,`, i)
	}
	object := func(name, rest string) string {
		return fmt.Sprintf(`{"apiVersion":%q,"kind":"Llama","metadata":{"name":%q},"spec":{%s"weight":1,"height":1}}`, group+"/"+version, name, rest)
	}
	t.Logf("the soft limit is %s", os.Getenv("GOMEMLIMIT"))
	files := memory(t, f.operator.PID(), "RssFile")
	for name, rest := range map[string]string{
		"keys":     keys.String(),
		"repeated": strings.Repeat(`"a":1,`, 400_000),
		"depth":    `"a":` + strings.Repeat(`{"a":`, 1000) + "1" + strings.Repeat("}", 1000) + ",",
		"lists":    `"a":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + ",",
		"long":     `"a":"` + strings.Repeat("x", 2_900_000) + `",`,
		"larger":   `"a":"` + strings.Repeat("x", 20_000_000) + `",`,
	} {
		codes := make(map[int]int)
		var mu sync.Mutex
		var clients sync.WaitGroup
		for c := range 8 {
			clients.Go(func() {
				for i := range rounds {
					body := object(fmt.Sprintf("%s-%d-%d", name, c, i), rest)
					req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body))
					if err != nil {
						t.Error(err)
						return
					}
					req.Header.Set("Content-Type", "application/json")
					resp, err := client.Do(req)
					if err != nil { // kube-apiserver may close the connection before it has read the body
						continue
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
					mu.Lock()
					codes[resp.StatusCode]++
					mu.Unlock()
				}
			})
		}
		clients.Wait()
		t.Logf("%s: answers %v; at most %d MB so far", name, codes, memory(t, f.operator.PID(), "VmHWM"))
		if codes[http.StatusInternalServerError] > 0 {
			t.Errorf("%s: %v", name, codes)
		}
	}
	// The kernel drops pages of files before it kills a process.
	if most := memory(t, f.operator.PID(), "VmHWM") - files; most > limit {
		t.Errorf("%d MB without pages of files", most)
	}
	_, err = f.llama("dora", 110, 170)
	f.ok(err)
	f.mood("dora", "content")
}

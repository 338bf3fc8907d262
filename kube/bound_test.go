package kube

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/kube/internal/wire"
)

const bombSize = 80 << 20

// bomb writes a compressed body of a few hundred kilobytes: start, a very long filling,
// and end. A gzip file may consist of members (RFC 1952), so the filling is compressed
// once.
func bomb(w http.ResponseWriter, contentType, start, filling, end string) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Encoding", "gzip")
	block := gzipped(strings.Repeat(filling, 1<<20/len(filling)))
	_, err := w.Write(gzipped(start))
	for i := 0; i < bombSize>>20 && err == nil; i++ {
		_, err = w.Write(block)
	}
	if err == nil {
		_, _ = w.Write(gzipped(end))
	}
}

func gzipped(text string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.WriteString(z, text)
	_ = z.Close()
	return b.Bytes()
}

// TestBombsHaveABound answers with bodies that are small on the way and huge when they
// are unpacked.
func TestBombsHaveABound(t *testing.T) {
	const meta = `"apiVersion":"v1","metadata":{"resourceVersion":"7"}`
	const two = 2<<3 | 2 // the tag of a length-delimited field 2: the list in the envelope, an item in the list
	huge := string(binary.AppendUvarint([]byte{two}, bombSize))
	inList := func(msg string) string {
		return string(inEnvelope("ConfigMapList", nil)) +
			string(binary.AppendUvarint([]byte{two}, uint64(len(msg)+bombSize))) + msg
	}
	for name, answers := range map[string]struct {
		contentType, start, filling, end string
		watch                            bool // the answer is that of a watch
		get                              bool // the answer is that of a get
	}{
		"item": {contentType: typeJSON, start: `{"kind":"ConfigMapList",` + meta +
			`,"items":[{"metadata":{"name":"`, filling: "a", end: `"}}]}`},
		"items of a list": {contentType: typeJSON, start: `{"kind":"ConfigMapList",` + meta + `,"items":[{"data":[`,
			filling: "[],", end: `7]}]}`},
		"name":           {contentType: typeJSON, start: `{"`, filling: "a", end: `":7}`},
		"unknown member": {contentType: typeJSON, start: `{"a":"`, filling: "a", end: `"}`},
		"metadata":       {contentType: typeJSON, start: `{"metadata":{"continue":"`, filling: "a", end: `"}}`},
		"kind":           {contentType: typeJSON, start: `{"kind":"`, filling: "a", end: `"}`},
		"only blanks":    {contentType: typeJSON, start: ``, filling: " ", end: `{}`},
		"blanks of items": {contentType: typeJSON, start: `{"kind":"ConfigMapList",` + meta + `,"items":[`, filling: " ",
			end: `]}`},
		"item of protobuf": {contentType: typeProtobuf, start: inList(huge), filling: "a", end: ""},
		"event": {contentType: typeJSON, start: `{"type":"ADDED","object":{"metadata":{"name":"`, filling: "a",
			end: `"}}}`, watch: true},
		"event of protobuf": {contentType: typeProtobuf, start: "\x25\x80\x00\x00", filling: "a", end: "", watch: true},
		"object": {contentType: typeJSON, start: `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"`,
			filling: "a", end: `"}}`, get: true},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if answers.watch && !isWatch(r) {
					w.Header().Set("Content-Type", typeJSON)
					_, _ = io.WriteString(w, `{"kind":"ConfigMapList",`+meta+`,"items":[]}`)
					return
				}
				bomb(w, answers.contentType, answers.start, answers.filling, answers.end)
			}))
			defer server.Close()
			c, err := Config{Rest: &rest.Config{Host: server.URL}, MaxObjectBytes: 4 << 20}.Connect()
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			cms := For[corev1.ConfigMap](c).In("default")
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if answers.get {
				_, err = cms.Get(t.Context(), "a")
			} else {
				for _, err = range cms.Watch(t.Context()) {
					if err != nil {
						break
					}
				}
			}
			runtime.ReadMemStats(&after)
			if !errors.Is(err, wire.ErrTooLarge) ||
				!strings.Contains(err.Error(), "the answer is too large: over 4194304 bytes (see Config.MaxObjectBytes)") {
				t.Errorf("got error %v", err)
			}
			if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; mb > 50 {
				t.Errorf("%d MB were allocated", mb)
			}
		})
	}
}

// TestAnswersWithinTheBound answers with large objects and pages that are allowed.
func TestAnswersWithinTheBound(t *testing.T) {
	value := strings.Repeat("a", 900_000)
	object := `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"default","uid":"u","resourceVersion":"7"},"data":{"note":"` + value + `"}}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", typeJSON)
		switch {
		case isWatch(r):
			_, _ = io.WriteString(w, `{"type":"MODIFIED","object":`+strings.ReplaceAll(object, `"7"`,
				`"9"`)+"}\n"+`{"type":"MODIFIED","object":`+strings.ReplaceAll(object, `"7"`, `"10"`)+"}\n")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		case strings.HasSuffix(r.URL.Path, "/a"):
			_, _ = io.WriteString(w, object)
		default:
			_, _ = io.WriteString(
				w,
				`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"8"},"items":[`+strings.Repeat(
					object+",", 6,
				)+object+"]}",
			)
		}
	}))
	defer server.Close()
	c, err := Config{Rest: &rest.Config{Host: server.URL}, MaxObjectBytes: 1 << 20}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cms := For[corev1.ConfigMap](c).In("default")
	if o, err := cms.Get(t.Context(), "a"); err != nil || o.Data["note"] != value {
		t.Errorf("get: %v", err)
	}
	n := 0
	for _, err := range cms.List(t.Context()) {
		if n++; err != nil {
			t.Errorf("list: %v", err)
		}
	}
	if n != 7 {
		t.Errorf("%d objects in a list", n)
	}
	var events []string
	start := time.Now()
	for ev, err := range cms.Watch(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if events = append(events, string(ev.Type)+ev.Object.ResourceVersion); len(events) == 4 {
			break
		}
	}
	wantLines(t, "events", events, "ADDED7", "SYNCED", "MODIFIED9", "MODIFIED10")
	if d := time.Since(start); d > time.Minute {
		t.Errorf("took %s", d)
	}
}

package metrics_test

import (
	"compress/gzip"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pintle-go/pintle/metrics"
)

// TestText compares a whole text, except for the metrics of the process.
func TestText(t *testing.T) {
	m := metrics.New()
	h := m.Histogram("z_seconds", "Times.", []float64{-1, 0.5, 2}, "who")
	for _, v := range []float64{-1, -0.5, 0.5, 0.6, 100} {
		h.With(`a"b\c` + "\n").Observe(v)
	}
	c := m.Counter("b_total", "What is \\ and \"this\"\nand that.", "y", "x")
	c.With("1", "b").Add(2.5)
	c.With("2", "a").Inc()
	c.With("1", "").Add(1e21)
	c.With("ä€😀\xff", "a\xffb").Add(2e6)
	g := m.Gauge("a", "")
	g.With().Set(math.Inf(-1))
	m.Gauge("nan", "").With().Set(math.NaN())
	m.Gauge("inf", "").With().Set(math.Inf(1))
	m.Gauge("unused", "Not shown.")

	got := own(scrape(t, m.Handler()))
	want := `# HELP a 
# TYPE a gauge
a -Inf
# HELP b_total What is \\ and "this"\nand that.
# TYPE b_total counter
b_total{x="",y="1"} 1e+21
b_total{x="a",y="2"} 1
b_total{x="a�b",y="ä€😀�"} 2e+06
b_total{x="b",y="1"} 2.5
# HELP inf 
# TYPE inf gauge
inf +Inf
# HELP nan 
# TYPE nan gauge
nan NaN
# HELP z_seconds Times.
# TYPE z_seconds histogram
z_seconds_bucket{who="a\"b\\c\n",le="-1"} 1
z_seconds_bucket{who="a\"b\\c\n",le="0.5"} 3
z_seconds_bucket{who="a\"b\\c\n",le="2"} 4
z_seconds_bucket{who="a\"b\\c\n",le="+Inf"} 5
z_seconds_sum{who="a\"b\\c\n"} 99.6
z_seconds_count{who="a\"b\\c\n"} 5
`
	if got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// own returns a text without the metrics that every program has.
func own(text string) string {
	always := regexp.MustCompile(`(?m)^(# (HELP|TYPE) )?(go_|process_|pintle_metrics_).*\n`)
	return always.ReplaceAllString(text, "")
}

// TestOrder checks that names are sorted, and that the next scrape has the same names.
func TestOrder(t *testing.T) {
	m := metrics.New()
	for _, name := range []string{"c", "a", "b"} {
		for _, priority := range []string{"low", "high", "normal"} {
			m.Gauge("depth_of_"+name, "", "priority").With(priority).Set(1)
		}
		m.AddStore(name, &store{})
	}
	names := func() (families, series []string) {
		for line := range strings.Lines(scrape(t, m.Handler())) {
			if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
				families = append(families, rest)
			} else if line[0] != '#' {
				series = append(series, line[:strings.LastIndexByte(line, ' ')])
			}
		}
		return families, series
	}
	families, series := names()
	if !slices.IsSorted(families) {
		t.Errorf("families are not sorted: %q", families)
	}
	if _, again := names(); !slices.Equal(series, again) {
		t.Errorf("first %q, then %q", series, again)
	}
}

func TestCollect(t *testing.T) {
	m, others := metrics.New(), metrics.New()
	depth := m.Gauge("depth", "", "queue")
	total := m.Counter("total", "")
	depth.With("b").Set(1)
	foreign := others.Gauge("depth", "", "queue")
	m.Collect(func(s *metrics.Scrape) {
		s.Gauge(depth, 7, "a")
		s.Counter(total, 5)
	})
	expect(t, scrape(t, m.Handler()), `depth{queue="a"} 7`, `depth{queue="b"} 1`, `total 5`)
	if err := m.Err(); err != nil {
		t.Error(err)
	}
	m.Collect(func(s *metrics.Scrape) {
		s.Gauge(depth, 8, "a") // instead of 7
		s.Gauge(depth, 9, "b") // instead of 1
		s.Counter(total, 1, "too", "many")
		s.Gauge(foreign, 1, "x")
		m.Gauge("declared_meanwhile", "").With().Set(1)
	})
	text := scrape(t, m.Handler())
	expect(t, text, `depth{queue="a"} 8`, `depth{queue="b"} 9`, `total 5`, `declared_meanwhile 1`)
	if n := strings.Count(text, "\ndepth{"); n != 2 {
		t.Errorf("depth is shown %d times:\n%s", n, text)
	}
	for of, want := range map[*metrics.Metrics][]string{
		m:      {`use gauge "depth": two values for {queue=`, `use counter "total": 2 values for the labels []`},
		others: {`use gauge "depth": the scrape is of other metrics`},
	} {
		for _, w := range want {
			if err := of.Err(); err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("got %v, want %s", err, w)
			}
		}
	}
}

func TestAppend(t *testing.T) {
	m := metrics.New()
	m.Gauge("a", "Ours.").With().Set(1)
	m.Append(func(w io.Writer) error {
		_, err := io.WriteString(
			w,
			"# HELP a Theirs.\n# TYPE a gauge\na 2\na_other 3\n# TYPE go_goroutines gauge\ngo_goroutines 5\n# TYPE z gauge\nz 4",
		)
		return err
	})
	m.Append(func(w io.Writer) error {
		_, err := io.WriteString(w, "# TYPE z gauge\nz 5\nplain{x=\"}\"} 1\n")
		return err
	})
	fails := false
	m.Append(func(w io.Writer) error {
		if _, err := io.WriteString(w, "# TYPE half gauge\nhal"); err != nil || fails {
			return errors.Join(err, errors.New("it is\nbroken"))
		}
		return nil
	})
	fails = true
	text := scrape(t, m.Handler())
	expect(
		t,
		text,
		"a 1",
		"a_other 3",
		"# TYPE z gauge\nz 4\nplain{",
		"pintle_metrics_errors 1",
		`# error: append metrics: it is\nbroken`,
	)
	for _, absent := range []string{"Theirs", "a 2", "go_goroutines 5", "z 5", "hal"} {
		if strings.Contains(text, "\n"+absent) {
			t.Errorf("%q is there:\n%s", absent, text)
		}
	}
	fails = false // the failure of one scrape is not a mistake of the program
	expect(t, scrape(t, m.Handler()), "pintle_metrics_errors 0")
	if err := m.Err(); err != nil {
		t.Error(err)
	}
}

// A program that is being moved shows the series of both libraries, in one family each.
func TestAppendToAFamily(t *testing.T) {
	m := metrics.New()
	m.Gauge("depth", "", "name").With("ours").Set(1)
	m.Gauge("unused", "", "name")
	m.Histogram("seconds", "", []float64{1}, "name", "to").With("ours", "x").Observe(2)
	m.Counter("mixed_total", "").With().Add(1)
	m.Append(func(w io.Writer) error {
		_, err := io.WriteString(w, `# HELP depth D.
# TYPE depth gauge
depth{name="ours"} 7
depth{name="theirs"} 5
# TYPE unused gauge
unused{name="theirs"} 6
# TYPE seconds histogram
seconds_bucket{to="x",name="ours",le="9"} 3
seconds_bucket{name="theirs",to="x",le="9"} 4
seconds_bucket{name="theirs",to="x",le="+Inf"} 4
seconds_sum{name="theirs",to="x"} 8
seconds_count{name="theirs",to="x"} 4
# TYPE mixed_total gauge
mixed_total{name="theirs"} 1
`)
		return err
	})
	text := scrape(t, m.Handler())
	expect(t, text, "depth{name=\"ours\"} 1\ndepth{name=\"theirs\"} 5", "# TYPE unused gauge\nunused{name=\"theirs\"} 6",
		`seconds_count{name="ours",to="x"} 1`+"\n"+`seconds_bucket{name="theirs",to="x",le="9"} 4`, "mixed_total 1")
	for _, absent := range []string{`depth{name="ours"} 7`, `le="9"} 3`, `mixed_total{`} {
		if strings.Contains(text, absent) {
			t.Errorf("%q is there:\n%s", absent, text)
		}
	}
	for _, once := range []string{"# TYPE depth ", "# TYPE seconds ", "# HELP depth"} {
		if n := strings.Count(text, once); n > 1 {
			t.Errorf("%q is there %d times", once, n)
		}
	}
	const want = `use counter "mixed_total": it is appended as a gauge`
	if err := m.Err(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Err is %v, want %s", err, want)
	}
}

func TestHandler(t *testing.T) {
	small := metrics.New()
	large := metrics.New()
	c := large.Counter("c", "", "n")
	for i := range 5000 {
		c.With(strings.Repeat("n", 30) + strconv.Itoa(i)).Inc()
	}
	ask := func(m *metrics.Metrics, method string, accept ...string) *http.Response {
		srv := httptest.NewServer(m.Handler())
		defer srv.Close()
		r, err := http.NewRequestWithContext(t.Context(), method, srv.URL+"/any/path", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header["Accept-Encoding"] = accept
		transport := &http.Transport{DisableCompression: true}
		defer transport.CloseIdleConnections()
		resp, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		resp.Body = io.NopCloser(strings.NewReader(string(body)))
		return resp
	}
	for name, tt := range map[string]struct {
		m       *metrics.Metrics
		method  string
		accept  []string
		code    int
		gzipped bool
	}{
		"get":              {small, "GET", nil, 200, false},
		"small":            {small, "GET", []string{"gzip"}, 200, false},
		"large":            {large, "GET", nil, 200, false},
		"compressed":       {large, "GET", []string{"gzip"}, 200, true},
		"of several":       {large, "GET", []string{"br;q=1.0, GZIP ; q=0.2", "deflate"}, 200, true},
		"refused":          {large, "GET", []string{"gzip;q=0, deflate"}, 200, false},
		"not understood":   {large, "GET", []string{"gzip;q=x"}, 200, false},
		"another":          {large, "GET", []string{"zstd"}, 200, false},
		"head":             {small, "HEAD", nil, 200, false},
		"head, compressed": {large, "HEAD", []string{"gzip"}, 200, true},
		"post":             {small, "POST", nil, 405, false},
	} {
		t.Run(name, func(t *testing.T) {
			resp := ask(tt.m, tt.method, tt.accept...)
			defer resp.Body.Close()
			if resp.StatusCode != tt.code {
				t.Fatalf("got %s, want %d", resp.Status, tt.code)
			}
			if tt.code != http.StatusOK {
				if allow := resp.Header.Get("Allow"); allow != "GET, HEAD" {
					t.Errorf("it allows %q", allow)
				}
				return
			}
			if ct := resp.Header.Get("Content-Type"); ct != "text/plain; version=0.0.4; charset=utf-8" {
				t.Errorf("content type %q", ct)
			}
			if got := resp.Header.Get("Content-Encoding") == "gzip"; got != tt.gzipped {
				t.Errorf("gzip: got %v, want %v", got, tt.gzipped)
			}
			if tt.method == http.MethodHead {
				return
			}
			body := io.Reader(resp.Body)
			if tt.gzipped {
				z, err := gzip.NewReader(body)
				if err != nil {
					t.Fatal(err)
				}
				body = z
			}
			text, err := io.ReadAll(body)
			if err != nil || !strings.Contains(string(text), "\ngo_goroutines ") {
				t.Errorf("%v\n%s", err, text)
			}
		})
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 3, io.ErrClosedPipe }

func TestWriteTo(t *testing.T) {
	m := metrics.New()
	var text strings.Builder
	n, err := m.WriteTo(&text)
	if err != nil || int(n) != text.Len() || !strings.Contains(text.String(), "# TYPE go_info gauge\n") {
		t.Errorf("%d bytes, %v:\n%s", n, err, text.String())
	}
	if n, err := m.WriteTo(broken{}); n != 3 || !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("write to a client that has gone: %d, %v", n, err)
	}
}

package webhook

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
)

// timer is the storage version of a kind.
type timer struct {
	kube.Object
	Spec struct {
		Schedule string `json:"schedule"`
		Zone     string `json:"zone,omitempty"`
	} `json:"spec"`
}

func (timer) GVK() kube.GVK { return kube.GVK{Group: "example.com", Version: "v2", Kind: "Timer"} }

// timerV1 lacks the zone.
type timerV1 struct {
	kube.Object
	Spec struct {
		Cron string `json:"cron"`
	} `json:"spec"`
}

func (timerV1) GVK() kube.GVK { return kube.GVK{Group: "example.com", Version: "v1", Kind: "Timer"} }

func timers(toV2 func(*timerV1, *timer) error) *crd.Definition {
	return crd.Join(crd.Of[timer](crd.Options{}), crd.Converts(crd.Of[timerV1](crd.Options{}), toV2,
		func(from *timer, to *timerV1) error {
			to.Spec.Cron = from.Spec.Schedule
			return nil
		}))
}

// toV2 fails in the ways that the schedules say.
func toV2(from *timerV1, to *timer) error {
	switch to.Spec.Schedule = from.Spec.Cron; from.Spec.Cron {
	case "refuse":
		return errors.New("no such schedule")
	case "panic":
		panic("at the disco")
	case "sleep":
		time.Sleep(time.Hour)
	}
	return nil
}

// handleConversions returns a handler that has memory for a body which is too large.
func handleConversions(o Options, definitions ...*crd.Definition) (http.Handler, error) {
	o.MaxBytes = maxConversion + maxBody
	s, err := newServer(o)
	if err != nil {
		return nil, err
	}
	return newConversions(s, definitions)
}

func converter(t *testing.T, o Options) http.Handler {
	t.Helper()
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	h, err := handleConversions(o, timers(toV2))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// converting sends a body and returns the answer.
func converting(h http.Handler, body io.Reader, change ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/convert?timeout=30s", body)
	r.Header.Set("Content-Type", "application/json")
	for _, f := range change {
		f(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// conversionOf returns a request for a version of objects.
func conversionOf(desired string, objects ...string) io.Reader {
	return strings.NewReader(`{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v1","request":{"uid":"u-1",
		"desiredAPIVersion":"` + desired + `","objects":[` + strings.Join(objects, ",") + `]}}`)
}

func convertedTo(t *testing.T, w *httptest.ResponseRecorder) *conversionResponse {
	t.Helper()
	var review conversionReview
	if err := json.Unmarshal(w.Body.Bytes(), &review); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	if review.APIVersion != conversionVersion || review.Kind != conversionKind || review.Response.UID != "u-1" ||
		review.Request != nil || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("%s", w.Body)
	}
	return review.Response
}

func timerOf(name, version, spec string) string {
	return `{"apiVersion":"example.com/` + version + `","kind":"Timer","metadata":{"namespace":"n","name":"` + name +
		`"},"spec":` + spec + `}`
}

// A list keeps its order and its number, whatever the versions of its objects are.
func TestConversionList(t *testing.T) {
	got := convertedTo(t, converting(converter(t, Options{}), conversionOf("example.com/v2",
		timerOf("c", "v1", `{"cron":"1"}`), timerOf("a", "v2", `{"schedule":"2","zone":"UTC"}`),
		timerOf("b", "v1", `{"cron":"3"}`))))
	want := []string{timerOf("c", "v2", `{"schedule":"1"}`), timerOf("a", "v2", `{"schedule":"2","zone":"UTC"}`),
		timerOf("b", "v2", `{"schedule":"3"}`)}
	if got.Result.Status != "Success" || got.Result.Message != "" || len(got.ConvertedObjects) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i := range want {
		if string(got.ConvertedObjects[i]) != want[i] {
			t.Errorf("%s\nwant %s", got.ConvertedObjects[i], want[i])
		}
	}
	w := converting(converter(t, Options{}), conversionOf("example.com/v2"))
	none := strings.Contains(w.Body.String(), `"convertedObjects":[]`)
	if got := convertedTo(t, w); got.Result.Status != "Success" || !none {
		t.Errorf("no objects: %s", w.Body)
	}
}

// A conversion that fails is a review that names the object and the version.
func TestConversionFails(t *testing.T) {
	var log bytes.Buffer
	h, err := handleConversions(Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), Settling: time.Nanosecond},
		timers(toV2))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ desired, object, want string }{
		"error": {"v2", timerOf("a", "v1", `{"cron":"refuse"}`),
			"convert Timer n/a of example.com/v1 to example.com/v2: no such schedule"},
		"panic": {"v2", timerOf("a", "v1", `{"cron":"panic"}`),
			"convert Timer n/a of example.com/v1 to example.com/v2: the conversion panicked: at the disco"},
		"version": {"v3", timerOf("a", "v1", `{"cron":"*"}`), "to example.com/v3: there is no conversion"},
		"of":      {"v2", timerOf("a", "v3", `{}`), "there is no conversion of v3"},
		"kind": {"v2", strings.Replace(timerOf("a", "v1", `{}`), "Timer", "Clock", 1),
			"convert Clock n/a of example.com/v1"},
		"no kind": {"v2", `{}`, "there is no conversion"},
		"no group": {"v2", strings.Replace(timerOf("a", "v1", `{}`), "example.com/", "", 1),
			"there is no conversion"},
		"null":   {"v2", `null`, "there is no conversion"},
		"string": {"v2", `"x"`, "decode"},
		"type":   {"v2", timerOf("a", "v1", `{"cron":7}`), "decode v1"},
		"large": {"v2", timerOf("a", "v1", `{"cron":"`+strings.Repeat("x", maxConverted)+`"}`),
			"more than 8388608 bytes"},
	} {
		// The other object is converted in vain: the API server takes all or none.
		body := conversionOf("example.com/"+c.desired, timerOf("b", "v1", `{"cron":"*"}`), c.object)
		got := convertedTo(t, converting(h, body))
		if got.Result.Status != "Failed" || !strings.Contains(got.Result.Message, c.want) || len(got.ConvertedObjects) != 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if !strings.Contains(log.String(), "at the disco") || !strings.Contains(log.String(), "conversion_test.go") {
		t.Errorf("the panic is not logged: %s", log.String())
	}
	got := convertedTo(t, converting(h, conversionOf("example.org/v2", timerOf("a", "v1", `{"cron":"*"}`))))
	if got.Result.Status != "Failed" {
		t.Errorf("another group: %+v", got)
	}
}

// What is no review gets a text.
func TestConversionBadRequest(t *testing.T) {
	h := converter(t, Options{})
	review := func(rest string) io.Reader {
		return strings.NewReader(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview"` + rest)
	}
	for name, c := range map[string]struct {
		body   io.Reader
		change func(*http.Request)
		code   int
		want   string
	}{
		"empty":   {strings.NewReader(" "), nil, 400, "the body is empty"},
		"no body": {http.NoBody, nil, 400, "the body is empty"},
		"no JSON": {review(``), nil, 400, "decode the review"},
		"list":    {strings.NewReader(`[]`), nil, 400, "decode the review"},
		"v1beta1": {strings.NewReader(`{"apiVersion":"apiextensions.k8s.io/v1beta1","kind":"ConversionReview"}`), nil, 400,
			"want a ConversionReview"},
		"kind": {strings.NewReader(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"Review"}`), nil, 400,
			"want a ConversionReview"},
		"nothing": {review(`}`), nil, 400, "no request"},
		"no uid":  {review(`,"request":{"objects":[]}}`), nil, 400, "no uid"},
		"broken":  {io.MultiReader(review(``), brokenBody{}), nil, 400, "read the body"},
		"large": {io.MultiReader(review(`,"request":{"uid":"`), endlessly{}), nil, 413,
			"larger than 33554432 bytes"},
		"type": {review(`}`), func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, 415,
			"application/json"},
		"no type": {review(`}`), func(r *http.Request) { r.Header.Del("Content-Type") }, 415, "application/json"},
		"GET":     {review(`}`), func(r *http.Request) { r.Method = http.MethodGet }, 405, "by POST"},
		"charset": {review(`}`), func(r *http.Request) { r.Header["Content-Type"][0] += "; charset=utf-8" }, 400,
			"no request"},
	} {
		change := c.change
		if change == nil {
			change = func(*http.Request) {}
		}
		if w := converting(h, c.body, change); w.Code != c.code || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}

type brokenBody struct{}

func (brokenBody) Read([]byte) (int, error) { return 0, errors.New("broken") }

// endlessly is a body that never ends.
type endlessly struct{}

func (endlessly) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// A replica that is young or stops may be of another release: the API server asks again.
func TestConversionUnknownVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		draining := false
		h := converter(t, Options{Draining: func() bool { return draining }})
		ask := func() *httptest.ResponseRecorder {
			return converting(h, conversionOf("example.com/v3", timerOf("a", "v1", `{}`)))
		}
		again := func(when string) {
			t.Helper()
			w := ask()
			if w.Code != 503 || w.Header().Get("Retry-After") != "1" || w.Header().Get("Connection") != "close" {
				t.Errorf("%s: %d %s %v", when, w.Code, w.Body, w.Header())
			}
		}
		again("young")
		time.Sleep(defaultSettling)
		if got := convertedTo(t, ask()); got.Result.Status != "Failed" {
			t.Errorf("settled: %+v", got)
		}
		draining = true
		again("draining")
		known := conversionOf("example.com/v2", timerOf("a", "v1", `{}`))
		if got := convertedTo(t, converting(h, known)); got.Result.Status != "Success" {
			t.Errorf("a known version while draining: %+v", got)
		}
	})
}

// A function that does not return in time is a review too, before the API server gives up.
func TestConversionOutlives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := converter(t, Options{})
		for query, want := range map[string]time.Duration{
			"": conversionTime, "?timeout=30s": conversionTime, "?timeout=5s": 4500 * time.Millisecond,
			"?timeout=1h": conversionTime, "?timeout=x": conversionTime, "?timeout=-1s": conversionTime,
		} {
			began := time.Now()
			got := convertedTo(t, converting(h, conversionOf("example.com/v2", timerOf("a", "v1", `{"cron":"sleep"}`)),
				func(r *http.Request) { r.URL.RawQuery = strings.TrimPrefix(query, "?") }))
			if took := time.Since(began); took != want || !strings.Contains(got.Result.Message, "took longer than") {
				t.Errorf("%s: %v %+v", query, took, got)
			}
		}
		time.Sleep(2 * time.Hour) // the functions return
	})
}

func TestConversionsRefuses(t *testing.T) {
	wrong := crd.Of[timer](crd.Options{Singular: "A B"})
	for want, definitions := range map[string][]*crd.Definition{
		"singular": {wrong}, "two definitions of Timer.example.com": {timers(toV2), timers(toV2)},
	} {
		if _, err := handleConversions(Options{}, definitions...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %s: %v", want, err)
		}
	}
	if _, err := handleConversions(Options{Settling: -1}); err == nil {
		t.Error("a negative time")
	}
}

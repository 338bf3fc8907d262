package monitoring

import (
	"embed"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/pintle-go/pintle/internal/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Run(m)) }

//go:embed testdata/*.txt
var known embed.FS

// names are the names of metrics that Neon's programs were seen to export, and those of the
// operator, which a test of the operator compares with it.
func names(t *testing.T) (all []string) {
	t.Helper()
	for _, file := range []string{"upstream-metrics.txt", "operator-metrics.txt"} {
		text, err := known.ReadFile("testdata/" + file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				all = append(all, line)
			}
		}
	}
	return all
}

// expressions returns all queries of the dashboard and of the alerts.
func expressions(t *testing.T) (all []string) {
	t.Helper()
	var d struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
		Templating struct{ List []struct{ Query string } }
	}
	if err := json.Unmarshal(dashboard, &d); err != nil {
		t.Fatal(err)
	}
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			all = append(all, target.Expr)
		}
	}
	for _, v := range d.Templating.List {
		if query, ok := strings.CutPrefix(v.Query, "label_values("); ok {
			all = append(all, strings.Split(query, ",")[0])
		}
	}
	var r struct {
		Spec struct {
			Groups []struct {
				Rules []struct {
					Alert, Expr string
					Annotations map[string]string
				}
			}
		}
	}
	if err := yaml.Unmarshal(rules, &r); err != nil {
		t.Fatal(err)
	}
	for _, g := range r.Spec.Groups {
		for _, rule := range g.Rules {
			if rule.Annotations["summary"] == "" || rule.Annotations["action"] == "" {
				t.Errorf("alert %s does not say what is wrong and what to do", rule.Alert)
			}
			all = append(all, rule.Expr)
		}
	}
	if len(all) < 30 {
		t.Errorf("there are only %d queries", len(all))
	}
	return all
}

// metric matches a metric in a query: a name with an underscore that is no function, label or
// argument of "by".
var (
	metric  = regexp.MustCompile(`[a-z]+(?:_[a-z]+)+`)
	unnamed = regexp.MustCompile(`\{[^}]*\}|\b(?:by|without) \([^)]*\)|\b\w+ ?\(`)
)

// TestMetricsExist compares the queries with the metrics that are known to exist.
func TestMetricsExist(t *testing.T) {
	t.Parallel()
	known := names(t)
	for _, query := range expressions(t) {
		found := metric.FindAllString(unnamed.ReplaceAllString(query, " "), -1)
		if len(found) == 0 {
			t.Errorf("%s: no metric", query)
		}
		for _, name := range found {
			base := name
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				base = strings.TrimSuffix(base, suffix)
			}
			if !slices.Contains(known, name) && !slices.Contains(known, base) {
				t.Errorf("%s: nothing exports %s", query, name)
			}
		}
	}
}

// TestObjects places all objects into a namespace.
func TestObjects(t *testing.T) {
	t.Parallel()
	all, err := Objects("watched", map[string]string{"team": "data"})
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, o := range all {
		text, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		var is struct {
			Kind     string
			Metadata struct {
				Namespace string
				Labels    map[string]string
			}
		}
		if err := json.Unmarshal(text, &is); err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, is.Kind)
		if is.Metadata.Namespace != "watched" || is.Metadata.Labels["team"] != "data" {
			t.Errorf("%s has the metadata %+v", is.Kind, is.Metadata)
		}
	}
	if want := []string{"ConfigMap", "PodMonitor", "ServiceMonitor", "PrometheusRule"}; !slices.Equal(kinds, want) {
		t.Errorf("the kinds are %v, want %v", kinds, want)
	}
}

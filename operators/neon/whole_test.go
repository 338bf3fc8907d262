package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/internal/optest"
	"github.com/pintle-go/pintle/operators/internal/podrun"
	"github.com/pintle-go/pintle/operators/internal/program"
	"github.com/pintle-go/pintle/operators/internal/standins"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/cluster"
	"github.com/pintle-go/pintle/operators/neon/internal/pgtest"
	"github.com/pintle-go/pintle/plan"
)

// land is a bench on whose simulated nodes each pod runs as a process: the stand-ins, with the
// arguments, the environment and the files that the operator made.
type land struct {
	*bench
	runner    *podrun.Runner
	databases kube.Resource[api.NeonDatabase]
	policies  kube.Resource[networkingv1.NetworkPolicy]
}

func newLand(t *testing.T) *land {
	t.Helper()
	pgtest.Bin(t)
	l := &land{bench: newBench(t)}
	l.databases = kube.For[api.NeonDatabase](l.client).In(l.namespace)
	l.policies = kube.For[networkingv1.NetworkPolicy](l.client).In(l.namespace)
	l.unclassed(8)
	postgres, err := standins.Find()
	l.ok(err)
	dir, err := os.MkdirTemp("", "pn") //nolint:usetesting // other accounts enter it, and paths of sockets are short
	l.ok(err)
	l.ok(standins.Share(dir))
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	store, err := program.Install(t.Context(), program.ObjectStore)
	l.ok(err)
	l.runner, err = standins.New(l.client, l.namespace, dir, postgres,
		standins.Programs{StandIn: standIn.Path(t), Store: store},
		func(pod string) func(string) {
			return func(line string) {
				if os.Getenv("NEON_TEST_PODS") != "" {
					fmt.Printf("%-28s | %s\n", pod, line)
				}
			}
		})
	l.ok(err)
	l.hostsFile = podrun.HostsFile(dir)
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- l.runner.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
	return l
}

// unclassed makes volumes without a StorageClass, for claims that name none.
func (l *land) unclassed(n int) {
	l.Helper()
	volumes := kube.For[corev1.PersistentVolume](l.client)
	for i := range n {
		v := new(corev1.PersistentVolume)
		v.Name = fmt.Sprintf("%s-unclassed-%d", l.namespace, i)
		v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}
		v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		v.Spec.HostPath = &corev1.HostPathVolumeSource{Path: "/nowhere"}
		_, err := volumes.Create(l.soon(), v)
		l.ok(err)
		l.Cleanup(func() { _ = volumes.Delete(context.Background(), v.Name) })
	}
}

// run starts the operator with a kubeconfig.
func (l *land) run(kubeconfig string, args ...string) {
	l.Helper()
	l.operator = binary.Run(l.T, kubeconfig, append([]string{
		"-addr=" + l.hooks, "-hooks=http://" + l.hooks, "-hosts=" + l.hostsFile, "-proxy=" + l.proxy,
	}, args...)...)
}

// order creates a NeonDatabase.
func (l *land) order(name string) {
	l.Helper()
	d := new(api.NeonDatabase)
	d.Name, d.Spec.ComputeImageRef, d.Spec.NeonImageRef = name, "compute:test", "neon:test"
	d.Spec.PostgresVersion, d.Spec.DeletionPolicy = "17", api.Delete
	_, err := l.databases.Create(l.soon(), d)
	l.ok(err)
}

func databaseStatus(d *api.NeonDatabase) *plan.Status { return &d.Status.Status }

// login asks a database something, by its connection Secret.
func (l *land) login(name string, into any, query string) *corev1.Secret {
	l.Helper()
	s, err := l.secrets.Until(l.soon(), name+"-connection", func(s *corev1.Secret) bool { return len(s.Data["uri"]) > 0 })
	l.ok(err)
	config, err := pgx.ParseConfig(string(s.Data["uri"]) + "?sslmode=disable")
	l.ok(err)
	dial := dialHosts(l.hostsFile)
	config.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		return dial(ctx, network, address)
	}
	c, err := pgx.ConnectConfig(l.soon(), config)
	l.ok(err)
	defer c.Close(context.Background())
	l.ok(c.QueryRow(l.soon(), query).Scan(into))
	return s
}

// TestWhole makes a NeonDatabase with all its parts, logs in through its Secret, and deletes it.
func TestWhole(t *testing.T) {
	t.Parallel()
	l := newLand(t)
	l.run(l.kubeconfig, "-page")
	optest.Expect(t, l.operator, "controller runs", "controller=neoncluster")
	begun := time.Now()
	l.order("orders")
	until(l.bench, l.databases, "orders", databaseStatus, "is ready",
		func(d *api.NeonDatabase) bool { return isReady(d, d.Status.Conditions) })
	t.Logf("ready after %s", time.Since(begun).Round(100*time.Millisecond))
	var n int
	l.login("orders", &n, "select 1")
	if n != 1 {
		t.Errorf("the answer is %d", n)
	}
	l.leaks()
	l.strict()
	l.columns()
	l.metrics()
	l.pages()
	l.rests()
	gone(l.bench, l.databases, "orders")
}

// TestRetained deletes a NeonDatabase whose data is to stay, which is said just before. Another one of
// its name finds the storage and the data as they were.
func TestRetained(t *testing.T) {
	t.Parallel()
	l := newLand(t)
	l.run(l.kubeconfig)
	optest.Expect(t, l.operator, "controller runs", "controller=neoncluster")
	begin := func() *api.NeonProject {
		d := new(api.NeonDatabase)
		d.Name, d.Spec.ComputeImageRef, d.Spec.NeonImageRef = "orders", "compute:test", "neon:test"
		d.Spec.PostgresVersion, d.Spec.DeletionPolicy = "17", api.Delete
		_, err := l.databases.Create(l.soon(), d)
		l.ok(err)
		until(l.bench, l.databases, "orders", databaseStatus, "is ready",
			func(d *api.NeonDatabase) bool { return isReady(d, d.Status.Conditions) })
		return l.projectReady("orders")
	}
	objects := func() (n int) {
		l.ok(filepath.WalkDir(filepath.Join(filepath.Dir(l.hostsFile), "volumes/data-orders-store-0/neon"),
			func(_ string, e fs.DirEntry, err error) error {
				if err == nil && e.Type().IsRegular() {
					n++
				}
				return err
			}))
		return n
	}
	tenant := begin().Status.TenantID
	key, err := l.secrets.Get(l.soon(), cluster.KeysName("orders"))
	l.ok(err)
	stored := objects()
	if stored == 0 {
		t.Error("there are no objects in the bucket")
	}
	_, err = l.databases.Modify(l.soon(), "orders", func(d *api.NeonDatabase) error {
		d.Spec.DeletionPolicy = api.Retain
		return nil
	})
	l.ok(err)
	gone(l.bench, l.databases, "orders")
	l.ok(l.clusters.UntilGone(l.soon(), "orders"))

	claims := 0
	for c, err := range kube.For[corev1.PersistentVolumeClaim](l.client).In(l.namespace).List(l.soon()) {
		l.ok(err)
		if c.DeletionTimestamp == nil {
			claims++
		}
	}
	if claims != 6 {
		t.Errorf("%d of 6 claims were retained", claims)
	}
	if kept, err := l.secrets.Get(l.soon(), cluster.KeysName("orders")); err != nil || !reflect.DeepEqual(kept.Data, key.Data) {
		t.Errorf("the key is another one: %v", err)
	}
	if left := objects(); left < stored {
		t.Errorf("of %d objects in the bucket %d are left", stored, left)
	}
	if again := begin().Status.TenantID; again != tenant {
		t.Error("the second NeonDatabase is an empty one, beside the data of the first")
	}
	var n int
	l.login("orders", &n, "select 1")
}

// columns reads the table that kubectl get shows.
func (l *land) columns() {
	l.Helper()
	for resource, want := range map[string][]string{
		"melenion.com/v1/%s/neondatabases":         {"Name", "Postgres", "Ready", "Status", "Since", "Host"},
		"neon.pintle.dev/v1alpha1/%s/neonclusters": {"Name", "Ready", "Status", "Since"},
		"neon.pintle.dev/v1alpha1/%s/neonprojects": {"Name", "Cluster", "Postgres", "Ready", "Status", "Since"},
		"neon.pintle.dev/v1alpha1/%s/neonbranches": {"Name", "Project", "From", "Ready", "Status", "Since"},
		"neon.pintle.dev/v1alpha1/%s/neonendpoints": {
			"Name", "Branch", "Type", "Ready", "Status", "Since", "Phase", "Host", "Last active",
		},
		"neon.pintle.dev/v1alpha1/%s/neonroles":           {"Name", "Branch", "Ready", "Secret"},
		"neon.pintle.dev/v1alpha1/%s/neonbranchdatabases": {"Name", "Branch", "Owner", "Ready"},
	} {
		table := l.table(fmt.Sprintf("/apis/"+resource, "namespaces/"+l.namespace))
		if len(table.Rows) != 1 {
			l.Errorf("%s: there are %d rows", resource, len(table.Rows))
			continue
		}
		shown := map[string]string{}
		for i, c := range table.ColumnDefinitions {
			if c.Priority == 0 {
				shown[c.Name] = fmt.Sprint(table.Rows[0].Cells[i])
			}
		}
		for _, name := range want {
			if _, ok := shown[name]; !ok {
				l.Errorf("%s: the column %s is missing: %v", resource, name, shown)
			}
		}
		switch status, ok := shown["Status"]; {
		case ok && status != "Ready", !ok && shown["Ready"] != "True":
			l.Errorf("%s: the columns are %v", resource, shown)
		}
	}
}

// table asks the API server as kubectl get does.
func (l *land) table(path string) *metav1.Table {
	l.Helper()
	client, err := rest.HTTPClientFor(l.config)
	l.ok(err)
	defer client.CloseIdleConnections()
	r, err := http.NewRequestWithContext(l.soon(), http.MethodGet, l.config.Host+path, nil)
	l.ok(err)
	r.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	answer, err := client.Do(r)
	l.ok(err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body) // to the end, so that the connection is idle
	l.ok(err)
	t := new(metav1.Table)
	l.ok(json.Unmarshal(text, t))
	return t
}

// rests sees that no controller goes on when all is ready, except for looking at things from time to time.
func (l *land) rests() {
	l.Helper()
	const seconds, most = 10, 10
	before := l.reconciles()
	time.Sleep(seconds * time.Second)
	for name, n := range l.reconciles() {
		l.Logf("%s: %d reconciles in %d s", name, n-before[name], seconds)
		if n-before[name] > most {
			l.Errorf("controller %s reconciled %d times in %d s, want %d at most", name, n-before[name], seconds, most)
		}
	}
}

// reconciles returns how often each controller has reconciled.
func (l *land) reconciles() map[string]int {
	l.Helper()
	_, text := l.fetch("/metrics")
	all := make(map[string]int)
	for line := range strings.Lines(text) {
		var name, result string
		var n int
		labels, number, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "} ")
		_, err := fmt.Sscanf(strings.ReplaceAll(labels, ",", " "), "controller_runtime_reconcile_total{controller=%q result=%q",
			&name, &result)
		if err != nil {
			continue // another metric
		}
		_, err = fmt.Sscan(number, &n)
		l.ok(err)
		all[name] += n
	}
	if len(all) < 7 {
		l.Errorf("the metrics have the reconciles of %d controllers", len(all))
	}
	return all
}

// metrics looks for the operator's metrics that the dashboard and the alerts use.
func (l *land) metrics() {
	l.Helper()
	list, err := os.ReadFile("monitoring/testdata/operator-metrics.txt")
	l.ok(err)
	_, text := l.fetch("/metrics")
	for line := range strings.Lines(string(list)) {
		name := strings.TrimSpace(line)
		if name == "" || strings.HasPrefix(name, "#") {
			continue
		}
		if !strings.Contains(text, "\n"+name+"{") {
			l.Errorf("the operator does not export %s", name)
		}
	}
}

// pages looks for the pages of the plans, and for data that they show without a token.
func (l *land) pages() {
	l.Helper()
	for _, kind := range []string{"databases", "clusters", "projects", "branches", "endpoints"} {
		if status, text := l.fetch("/plans/" + kind + "/"); status != http.StatusOK || !strings.Contains(text, "<html") {
			l.Errorf("the page of %s is %d %q", kind, status, text)
		}
		if status, _ := l.fetch("/plans/" + kind + "/data"); status != http.StatusUnauthorized {
			l.Errorf("the data of %s without a token is %d", kind, status)
		}
	}
}

// fetch gets a path of the operator.
func (l *land) fetch(path string) (status int, text string) {
	l.Helper()
	r, err := http.NewRequestWithContext(l.soon(), http.MethodGet, "http://"+l.hooks+path, nil)
	l.ok(err)
	answer, err := http.DefaultClient.Do(r)
	l.ok(err)
	defer http.DefaultClient.CloseIdleConnections()
	defer answer.Body.Close()
	all, err := io.ReadAll(answer.Body)
	l.ok(err)
	return answer.StatusCode, string(all)
}

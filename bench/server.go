package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/pintle-go/pintle/bench/fixture"
)

// writeKubeconfig writes the file by which the measured programs find the cluster.
func writeKubeconfig(cfg *rest.Config, path string) error {
	const name = "bench"
	kc := clientcmdapi.NewConfig()
	kc.Clusters[name] = &clientcmdapi.Cluster{
		Server: cfg.Host + cfg.APIPath, InsecureSkipTLSVerify: cfg.Insecure, TLSServerName: cfg.ServerName,
		CertificateAuthority: cfg.CAFile, CertificateAuthorityData: cfg.CAData,
	}
	kc.AuthInfos[name] = &clientcmdapi.AuthInfo{
		Token: cfg.BearerToken, TokenFile: cfg.BearerTokenFile, Exec: cfg.ExecProvider,
		ClientCertificate: cfg.CertFile, ClientCertificateData: cfg.CertData,
		ClientKey: cfg.KeyFile, ClientKeyData: cfg.KeyData,
	}
	kc.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	kc.CurrentContext = name
	if err := clientcmd.WriteToFile(*kc, path); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}

// served holds the measurements of the server alone, without either of the two sides.
type served struct {
	version        string
	pod, widget    int           // mean size as JSON, in bytes
	podList        time.Duration // list of all Pods as protobuf, gzip, thrown away
	widgetList     time.Duration // list of all custom resources as JSON, gzip, thrown away
	podListSize    int           // unpacked
	widgetListSize int
}

const podsPath, widgetsPath = "/api/v1/pods", "/apis/bench.example.com/v1/widgets"

// weigh measures the loaded objects. It also warms the server up.
func weigh(ctx context.Context, cfg *rest.Config) (served, error) {
	s, err := weighOne(ctx, cfg)
	if err != nil {
		return s, err
	}
	a, err := newAsker(cfg)
	if err != nil {
		return s, err
	}
	if s.podList, s.podListSize, err = a.timed(ctx, podsPath, "application/vnd.kubernetes.protobuf"); err != nil {
		return s, err
	}
	s.widgetList, s.widgetListSize, err = a.timed(ctx, widgetsPath, "application/json")
	return s, err
}

// weighOne measures the mean size of the loaded objects, and no lists of them.
func weighOne(ctx context.Context, cfg *rest.Config) (served, error) {
	var s served
	a, err := newAsker(cfg)
	if err != nil {
		return s, err
	}
	version, _, err := a.get(ctx, "/version", "application/json")
	if err != nil {
		return s, err
	}
	if _, rest, ok := strings.Cut(version, `"gitVersion": "`); ok {
		s.version, _, _ = strings.Cut(rest, `"`)
	}
	if s.pod, err = a.mean(ctx, podsPath); err != nil {
		return s, err
	}
	s.widget, err = a.mean(ctx, widgetsPath)
	return s, err
}

// asker sends plain requests to the server.
type asker struct {
	client *http.Client
	host   string
}

func newAsker(cfg *rest.Config) (asker, error) {
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return asker{}, fmt.Errorf("connect: %w", err)
	}
	return asker{client, cfg.Host}, nil
}

// get returns the beginning of an answer, and its size.
func (a asker) get(ctx context.Context, path, accept string) (string, int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.host+path, nil)
	if err != nil {
		return "", 0, err
	}
	req.Header.Set("Accept", accept)
	resp, err := a.client.Do(req)
	if err != nil {
		return "", 0, fmt.Errorf("get %s: %w", path, err)
	}
	defer resp.Body.Close()
	var head strings.Builder
	n, err := io.Copy(io.MultiWriter(io.Discard, &limited{&head, 4096}), resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return "", 0, fmt.Errorf("get %s: %s: %w", path, resp.Status, err)
	}
	return head.String(), int(n), nil
}

// timed returns the median time of getting a list, and its size.
func (a asker) timed(ctx context.Context, path, accept string) (time.Duration, int, error) {
	var took []float64
	size := 0
	for range 3 {
		start := time.Now()
		var err error
		if _, size, err = a.get(ctx, path, accept); err != nil {
			return 0, 0, err
		}
		took = append(took, float64(time.Since(start)))
	}
	d, _ := median(took)
	return time.Duration(d), size, nil
}

// mean returns the mean size of some objects as JSON.
func (a asker) mean(ctx context.Context, resource string) (int, error) {
	const samples = 20
	sum := 0
	for i := range samples {
		_, n, err := a.get(ctx, fmt.Sprintf("%s/namespaces/%s/%s/%s", strings.TrimSuffix(resource, "/"+last(resource)),
			fixture.Namespace(i), last(resource), fixture.Name(i)), "application/json")
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum / samples, nil
}

func last(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// limited keeps the first bytes that are written to it.
type limited struct {
	b    *strings.Builder
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	n := min(l.left, len(p))
	l.b.Write(p[:n])
	l.left -= n
	return len(p), nil
}

// setup describes the measured subjects and their setup.
func setup(o options, s served) string {
	procs := os.Getenv("GOMAXPROCS")
	if procs == "" {
		procs = fmt.Sprint(runtime.GOMAXPROCS(0))
	}
	busy := ""
	if load := loadAverage(); load != "" {
		busy = ", load average " + load
	}
	return fmt.Sprintf(
		`One API server (%s, on this machine, %d processors%s), %d Pods of %.1f KB and %d custom resources of %.1f KB as JSON.
The server alone, its answer thrown away: all Pods as protobuf with gzip %s (%s unpacked), all custom resources as JSON with gzip %s (%s unpacked).
Peer: controller-runtime %s, client-go %s, in a program of its own: config.GetConfig and cache.New with no options but the scheme; that is protobuf for
Pods, JSON for custom resources, streaming lists (WatchListClient, on by default), watch bookmarks, a deep copy on each read, no client-side rate limit;
compression as net/http asks for it. "streaming list off": the same with KUBE_FEATURE_WatchListClient=false. "managedFields stripped": the same with
DefaultTransform: TransformStripManagedFields (ours drops them by default). "three fields by a transform": the same with a DefaultTransform that keeps three fields and the metadata.
kube-rs, where cargo is installed: the versions in kubers/Cargo.toml, a release build with LTO, a reflector with streaming lists and managed fields cleared.
Ours: kube.Connect and Store with no options, in a program of its own; package kube chooses how to list. Both: Go %s, GOMAXPROCS %s, GOGC default, CGO_ENABLED=0, one process per run.
Medians of %d runs, peer and ours in turn. Time to sync: from connecting (discovery included) to holding everything; live heap: HeapAlloc one second later, after
two collections; peak RSS: VmHWM at that moment; CPU: user and system time of the sync; of the server: its process_cpu_seconds_total, garbage collections included; p50: of 20,000 reads of random keys, 1,000 look-ups. MB = 1,000,000 bytes.
`,
		s.version,
		runtime.NumCPU(),
		busy,
		o.objects,
		float64(s.pod)/1e3,
		o.objects,
		float64(s.widget)/1e3,
		duration(s.podList),
		size(uint64(s.podListSize)),
		duration(s.widgetList),
		size(uint64(s.widgetListSize)),
		moduleVersion("sigs.k8s.io/controller-runtime"),
		moduleVersion("k8s.io/client-go"),
		strings.TrimPrefix(runtime.Version(), "go"),
		procs,
		o.runs,
	)
}

// loadAverage returns how many processes wanted to run during the last minute.
func loadAverage() string {
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	lastMinute, _, _ := strings.Cut(string(load), " ")
	return lastMinute
}

func moduleVersion(path string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == path {
				return m.Version
			}
		}
	}
	return "of an unknown version"
}

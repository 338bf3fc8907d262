package cluster

import (
	gocmp "cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/certmanager"
	"github.com/pintle-go/pintle/operators/neon/internal/policy"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/lab"
	"github.com/pintle-go/pintle/operators/neon/internal/token"
	"github.com/pintle-go/pintle/operators/neon/internal/trust"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
)

// certified reports that a pod has a certificate.
func certified(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == "/tls" })
}

var controlPlane = regexp.MustCompile(`(?m)^control_plane_api="(.*)/upcall/v1/"$`)

// mode reads from a pod, and from the files that it mounts, what its program serves and how it calls others.
func (w *world) mode(program string, pod *corev1.Pod) lab.Mode {
	w.Helper()
	main := pod.Spec.Containers[0]
	m := lab.Mode{ByTLS: slices.Contains(main.Args, "--use-https-pageserver-api")}
	for _, p := range main.Ports {
		switch p.Name {
		case "http":
			m.Plain = true
		case "https", "tls":
			m.Secure, m.HTTPS = true, int(p.ContainerPort)
		}
	}
	if strings.HasPrefix(program, "pageserver-") {
		s, err := w.secrets.Get(w.Context(), "main-"+program)
		w.ok(err)
		m.Controller = controlPlane.FindStringSubmatch(string(s.Data["pageserver.toml"]))[1]
		var metadata struct {
			HTTPS int `json:"https_port"`
		}
		w.ok(json.Unmarshal(s.Data["metadata.json"], &metadata))
		m.HTTPS = metadata.HTTPS
	}
	return m
}

// named has the stand-ins know each other by the names of their Services, as clusters with TLS do.
func (w *world) named() {
	w.lab.TLS = w.secure()
	w.lab.TLS.Mode = func(program string) lab.Mode { return w.modes[program] }
}

// servedBy makes the ports of a program known, also by the second Service of a storage controller.
func (w *world) servedBy(host string, port int, program string) {
	w.Helper()
	w.known(host, port, program)
	at := program
	if m := w.modes[program]; m.Plain && m.Secure {
		at += "-tls"
		w.known(host, port+1, at)
	} else {
		w.unknown(host, port+1)
	}
	w.known(strings.Replace(host, ".", "-tls.", 1), port, at)
}

// unknown makes a name unknown.
func (w *world) unknown(host string, port int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hosts[fmt.Sprintf("%s:%d", host, port)] = "127.0.0.1:1"
}

func addTLS(c *api.NeonCluster)    { c.Spec.TLS = new(api.TLS) }
func removeTLS(c *api.NeonCluster) { c.Spec.TLS = nil }

// hasTLS holds when the change to TLS is over, and hasNone when that back is.
func hasTLS(c *api.NeonCluster) bool {
	return isReady(c) && c.Status.TLS != nil && c.Status.TLS.Step == "On" && !c.Status.TLS.Removing
}
func hasNone(c *api.NeonCluster) bool { return isReady(c) && c.Status.TLS == nil }

// course is what is seen of a change.
type course struct {
	steps []string
	pods  map[string]map[types.UID]bool // by the names of programs
}

// see notes the present state.
func (s *course) see(w *world, c *api.NeonCluster) {
	w.Helper()
	step := ""
	if c.Status.TLS != nil {
		step = c.Status.TLS.Step
	}
	if n := len(s.steps); n == 0 || s.steps[n-1] != step {
		w.Logf("step %q", step)
		s.steps = append(s.steps, step)
	}
	if s.pods == nil {
		s.pods = map[string]map[types.UID]bool{}
	}
	for name, uid := range w.runs {
		if s.pods[name] == nil {
			s.pods[name] = map[types.UID]bool{}
		}
		s.pods[name][uid] = true
	}
}

// restarts sees how often programs were restarted.
func (s *course) restarts(w *world, want map[string]int) {
	w.Helper()
	is := map[string]int{}
	for name, pods := range s.pods {
		is[name] = len(pods) - 1
	}
	if diff := cmp.Diff(want, is); diff != "" {
		w.Errorf("restarts (-want +got):\n%s", diff)
	}
}

// likeNew sees that all programs have the templates of a cluster that was made with TLS, or without it.
func (w *world) likeNew(c *api.NeonCluster) {
	w.Helper()
	c.Status.TLS = nil
	keys, err := w.secrets.Get(w.Context(), KeysName("main"))
	w.ok(err)
	key, err := ParseKeys(keys)
	w.ok(err)
	parts := []part{broker(c), storageController(c, HookURL("http://operator", c), databaseURL(c))}
	for _, id := range safekeeperIDs(c) {
		parts = append(parts, safekeeper(c, id))
	}
	for _, id := range pageserverIDs(c) {
		files, err := pageserverFiles(c, id, key)
		w.ok(err)
		parts = append(parts, pageserver(c, id, files))
	}
	secure := c.Spec.TLS != nil
	for _, p := range parts {
		if component := p.about.Labels[componentLabel]; secure && component != "broker" {
			p.authority = w.authorities().Newest()
		}
		want := p.template()
		pods := 0
		for pod, err := range w.pods.Labeled(labelsOf(p)).List(w.Context()) {
			w.ok(err)
			if pod.DeletionTimestamp != nil {
				continue
			}
			pods++
			is, wanted := pod.Spec.Containers[0], want.Spec.Containers[0]
			for what, pair := range map[string][2]any{
				"arguments": {wanted.Args, is.Args}, "ports": {wanted.Ports, is.Ports}, "mounts": {wanted.VolumeMounts, is.VolumeMounts},
				"configuration": {want.Annotations["neon.pintle.dev/configuration"], pod.Annotations["neon.pintle.dev/configuration"]},
				"authority":     {want.Annotations[authorityAnnotation], pod.Annotations[authorityAnnotation]},
				"scheme":        {gocmp.Or(wanted.ReadinessProbe.HTTPGet.Scheme, corev1.URISchemeHTTP), is.ReadinessProbe.HTTPGet.Scheme},
			} {
				if diff := cmp.Diff(pair[0], pair[1]); diff != "" {
					w.Errorf("%s of %s (-want +got):\n%s", what, pod.Name, diff)
				}
			}
		}
		if pods != 1 {
			w.Errorf("%s has %d pods", p.about.Name, pods)
		}
		service, err := kube.For[corev1.Service](w.client).In(w.ns).Get(w.Context(), p.about.Name)
		w.ok(err)
		if len(service.Spec.Ports) != len(p.ports) || service.Spec.Ports[0].Name != p.ports[0].Name {
			w.Errorf("Service %s has the ports %+v", service.Name, service.Spec.Ports)
		}
	}
	for s, err := range kube.For[corev1.Service](w.client).In(w.ns).List(w.Context()) {
		w.ok(err)
		if strings.HasSuffix(s.Name, "-tls") {
			w.Errorf("Service %s is left", s.Name)
		}
	}
	want := map[string]int{"broker": 1, "controller": 1, "safekeeper": 2, "pageserver": 2}
	for p, err := range kube.For[networkingv1.NetworkPolicy](w.client).In(w.ns).List(w.Context()) {
		w.ok(err)
		if n := want[p.Labels[componentLabel]]; n != len(p.Spec.Ingress) {
			w.Errorf("NetworkPolicy %s opens %d ports instead of %d", p.Name, len(p.Spec.Ingress), n)
		}
	}
	for s, err := range w.secrets.List(w.Context()) {
		w.ok(err)
		if certificate := strings.HasSuffix(s.Name, "-tls") || strings.HasSuffix(s.Name, "-ca"); certificate && !secure {
			w.Errorf("Secret %s is left", s.Name)
		}
	}
	var port *int
	at := func(own int) *int {
		if secure {
			return &own
		}
		return port
	}
	for _, id := range safekeeperIDs(c) {
		r, err := w.controller().Registration(w.Context(), id)
		w.ok(err)
		if diff := cmp.Diff(at(SafekeeperHTTPPort), r.HTTPSPort); diff != "" || r.Policy != upstream.SafekeeperActive {
			w.Errorf("the registration of safekeeper %d is %+v", id, r)
		}
	}
	for _, id := range pageserverIDs(c) {
		n, err := w.controller().Node(w.Context(), id)
		w.ok(err)
		if diff := cmp.Diff(at(PageserverHTTPPort), n.HTTPSPort); diff != "" {
			w.Errorf("the registration of pageserver %d is %+v", id, n)
		}
	}
}

func labelsOf(p part) string {
	var all []string
	for k, v := range p.about.Labels {
		all = append(all, k+"="+v)
	}
	return strings.Join(all, ",")
}

// TestChangeOfTLS adds TLS to a cluster that holds data and has lost a safekeeper before, and removes it. At each
// step the storage controller reaches all members, and one safekeeper at most is away.
func TestChangeOfTLS(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, trust.Terms{}, nil, (*world).named)
	w.timeline(tenantID, 1)
	w.change(func(c *api.NeonCluster) { c.Spec.Safekeepers.Lost = []int64{1} })
	w.until("safekeeper 1 has left", func(c *api.NeonCluster) bool {
		return isReady(c) && w.left(1)(c) && w.runs["safekeeper-1"] == "" &&
			len(c.Status.Safekeepers) == 3 && c.Status.Safekeepers[0].ID == 2
	})
	w.decommissioned(1)
	ctx, cancel := context.WithCancel(t.Context())
	q, over := &quorum{images: map[string]string{}}, make(chan error, 1)
	go q.watch(ctx, w, over)

	members := []string{"safekeeper-2", "safekeeper-3", "safekeeper-4", "pageserver-1", "pageserver-2"}
	want := map[string]int{"controller": 2}
	for _, name := range members {
		want[name] = 2
	}
	for _, way := range []struct {
		change func(*api.NeonCluster)
		done   func(*api.NeonCluster) bool
		steps  []string
	}{
		{addTLS, hasTLS, []string{"", "Offering", "Joining", "Moving", "Closing", "On"}},
		{removeTLS, hasNone, []string{"On", "Moving", "Joining", "Offering", ""}},
	} {
		seen := new(course)
		c, err := w.clusters.Get(t.Context(), "main")
		w.ok(err)
		seen.see(w, c)
		w.change(way.change)
		c = w.until("TLS is changed", func(c *api.NeonCluster) bool {
			seen.see(w, c)
			return way.done(c)
		})
		if way.steps[0] == "On" { // there is nothing to restart at the step Closing
			seen.steps = slices.DeleteFunc(seen.steps, func(step string) bool { return step == "Closing" })
		}
		if diff := cmp.Diff(way.steps, seen.steps); diff != "" {
			t.Errorf("the steps (-want +got):\n%s", diff)
		}
		seen.restarts(w, want)
		w.likeNew(c)
		if diff := cmp.Diff([]int64{2, 3, 4}, w.located(tenantID)); diff != "" {
			t.Errorf("the timeline is elsewhere (-want +got):\n%s", diff)
		}
	}
	cancel()
	w.ok(<-over)
	if len(q.worst) > 1 {
		t.Errorf("%v were down at the same time", q.worst)
	}
	drains(w, "/drain", 1, 2)
	w.timeline(otherID, 1)
}

// TestIssuerLater adds TLS with an issuer of cert-manager, and removes it. As long as a compute demands TLS, all
// members serve it.
func TestIssuerLater(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, trust.Terms{}, nil, func(w *world) {
		w.named()
		w.issuer = newIssuer(w, w.client)
	})
	w.timeline(tenantID, 1)
	w.change(withIssuer)
	c := w.until("TLS is added", hasTLS)
	w.likeNew(c)
	if diff := cmp.Diff(c.Spec.TLS.Issuer, IssuerOf(c)); diff != "" {
		t.Errorf("the issuer (-want +got):\n%s", diff)
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		Containers:   []corev1.Container{{Name: "compute", Image: "compute:test"}},
		NodeSelector: map[string]string{"nowhere": "true"},
		Volumes:      []corev1.Volume{{Name: "tls", VolumeSource: corev1.VolumeSource{EmptyDir: new(corev1.EmptyDirVolumeSource)}}},
	}}
	pod.Name, pod.Labels = "shop-compute-0", map[string]string{componentLabel: "compute", policy.ClusterLabel: "main"}
	_, err := w.pods.Create(t.Context(), pod)
	w.ok(err)
	w.change(removeTLS)
	w.until("the compute is waited for", says("tls", "compute shop-compute-0 is about to be restarted without TLS"))
	w.ok(w.pods.Delete(t.Context(), pod.Name))
	w.likeNew(w.until("TLS is removed", hasNone))
	w.until("the Secrets of cert-manager are gone", func(*api.NeonCluster) bool {
		for s, err := range w.secrets.List(t.Context()) {
			w.ok(err)
			if strings.HasSuffix(s.Name, certmanager.SecretName("")) {
				return false
			}
		}
		return true
	})
}

// TestTurn adds TLS with an issuer that the operator cannot use. Nothing is restarted for it, so that the user can
// remove it and name another one.
func TestTurn(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, trust.Terms{}, nil, (*world).named)
	seen := new(course)
	w.change(withIssuer)
	w.until("the operator says why", func(c *api.NeonCluster) bool {
		seen.see(w, c)
		return says("authority", ErrNoCertManager.Error())(c)
	})
	w.change(removeTLS)
	c := w.until("it is as it was", func(c *api.NeonCluster) bool {
		seen.see(w, c)
		return hasNone(c)
	})
	w.likeNew(c)
	seen.restarts(w, map[string]int{
		"controller": 0, "safekeeper-1": 0, "safekeeper-2": 0, "safekeeper-3": 0, "pageserver-1": 0, "pageserver-2": 0,
	})

	t.Log("TLS is removed before it is there: the programs that serve both go back")
	w.change(addTLS)
	w.until("the members are restarted", func(c *api.NeonCluster) bool { return c.Status.TLS != nil && c.Status.TLS.Step == "Joining" })
	w.change(removeTLS)
	w.likeNew(w.until("it is as it was", hasNone))
	w.timeline(tenantID, 1)
}

// TestStages lists the flags and files in the steps between. The flags are those of upstream.
func TestStages(t *testing.T) {
	t.Parallel()
	plainBroker, plainController := "http://main-broker.data.svc:50051", "http://main-controller.data.svc:1234/upcall/v1/"
	between, controller := "https://main-broker-tls.data.svc:50051", "https://main-controller-tls.data.svc:1234/upcall/v1/"
	ofBroker := []string{"--listen-addr=0.0.0.0:50051", "--listen-https-addr=0.0.0.0:50052", servingFlags[0]}
	ofController := []string{"-l 0.0.0.0:1234", "--listen-https 0.0.0.0:1235", servingFlags[0], authorityFlag}
	ofKeeper := []string{
		"--listen-http=0.0.0.0:7676", "--listen-https=0.0.0.0:7677", authorityFlag, "--broker-endpoint=" + between,
	}
	ofServer := []string{
		"listen_http_addr='0.0.0.0:9898'", "listen_https_addr='0.0.0.0:9899'", `ssl_ca_file="/tls/ca.crt"`,
		`broker_endpoint="` + between + `"`, `control_plane_api="` + controller + `"`, `"http_port":9898,"https_port":9899`,
	}
	for step, want := range map[string]struct {
		broker, controller, safekeeper, pageserver, lacks []string
	}{
		"Offering": {
			broker: ofBroker, controller: ofController,
			safekeeper: []string{"--listen-http=0.0.0.0:7676", "--broker-endpoint=" + plainBroker},
			pageserver: []string{`broker_endpoint="` + plainBroker + `"`, `control_plane_api="` + plainController + `"`},
			lacks:      []string{"--use-https", "--listen-https=", "listen_https_addr", "https_port"},
		},
		"Joining": {
			broker: ofBroker, controller: ofController, safekeeper: ofKeeper, pageserver: ofServer, lacks: []string{"--use-https"},
		},
		"Moving": {
			broker: []string{"--listen-https-addr=0.0.0.0:50051"},
			controller: []string{
				"--listen-https 0.0.0.0:1234", authorityFlag, "--use-https-pageserver-api", "--use-https-safekeeper-api",
			},
			safekeeper: ofKeeper, pageserver: ofServer, lacks: []string{"--listen-addr", "-l 0.0.0.0", "50052", "1235"},
		},
		"Closing": {
			broker:     []string{"--listen-https-addr=0.0.0.0:50051"},
			controller: []string{"--listen-https 0.0.0.0:1234", "--use-https-pageserver-api"},
			safekeeper: []string{
				"--listen-http=127.0.0.1:7675", "--listen-https=0.0.0.0:7676", "--use-https-safekeeper-api",
				"--broker-endpoint=https://main-broker.data.svc:50051",
			},
			pageserver: []string{"listen_http_addr='127.0.0.1:9897'", "listen_https_addr='0.0.0.0:9898'", `"https_port":9898`},
			lacks:      []string{"-tls.data.svc", "7677", "9899", "--listen-addr", "-l 0.0.0.0"},
		},
	} {
		c := sample()
		c.Status.TLS = &api.TLSStatus{Step: step}
		files, err := pageserverFiles(c, 1, token.New())
		if err != nil {
			t.Fatal(err)
		}
		text := func(p part) string { return strings.Join(p.args, " ") + " " }
		all := ""
		for name, pair := range map[string]struct {
			is   string
			want []string
		}{
			"broker":     {text(broker(c)), want.broker},
			"controller": {text(storageController(c, "http://hooks", databaseURL(c))), want.controller},
			"safekeeper": {text(safekeeper(c, 1)), want.safekeeper},
			"pageserver": {string(files["pageserver.toml"]) + string(files["metadata.json"]), want.pageserver},
		} {
			all += pair.is
			for _, w := range pair.want {
				if !strings.Contains(pair.is, w) {
					t.Errorf("%s: %s has no %s: %s", step, name, w, pair.is)
				}
			}
		}
		// A program that serves its own port with TLS refuses those of upstream that ask for none.
		for _, not := range append(want.lacks, "enable-tls-wal-service-api", "enable_tls_page_service_api") {
			if strings.Contains(all, not) {
				t.Errorf("%s: a program has %s: %s", step, not, all)
			}
		}
	}
}

package podrun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/pintle-go/pintle/internal/leak"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/operators/internal/optest"
)

func TestMain(m *testing.M) { os.Exit(leak.Run(m)) }

// said has the lines of a pod's output.
type said struct {
	mu    sync.Mutex
	lines []string
}

func (s *said) add(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, line)
}

func (s *said) await(t *testing.T, line string) {
	t.Helper()
	kubetest.Eventually(t, fmt.Sprintf("the pod has said %q", line), func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !slices.Contains(s.lines, line) {
			return fmt.Errorf("it has said %q", s.lines)
		}
		return nil
	})
}

const script = `echo "$GREETING from $ADDRESS, $(cat /files/key)"
trap 'echo terminated; exit 0' TERM
if [ ! -f /data/begun ]; then touch /data/begun; echo first; exit 1; fi
echo again
while ! grep -q changed /files/key; do sleep 0.05; done
echo "$(cat /files/key)"
while :; do sleep 0.05; done`

// TestPod runs a pod with a Secret, which changes, an environment, a volume and a command that ends it. Its
// process ends by itself the first time.
func TestPod(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("pods get addresses of their own only on Linux")
	}
	of := kubetest.Start(t, kubetest.Options{Nodes: 2})
	client, ns := optest.Client(t, of.Config()), of.Namespace(t)
	var out said
	r, err := New(Options{
		Client: client, Namespace: ns, Labels: "app=one", Dir: t.TempDir(), Line: func(string) func(string) { return out.add },
		Command: func(c *corev1.Container) (string, []string, error) { return c.Command[0], nil, nil },
		Replace: func(address, _ string) map[string]string { return map[string]string{"ADDRESS-OF-POD": address} },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- r.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-over; err != nil {
			t.Error(err)
		}
	}()
	create(t, client, ns)

	address := r.address("one")
	out.await(t, "hello from "+address+", of the secret")
	out.await(t, "first")
	out.await(t, "again")
	change := []byte(`{"stringData":{"key":"changed"}}`)
	if _, err := kube.For[corev1.Secret](client).In(ns).Patch(t.Context(), "files", types.MergePatchType, change); err != nil {
		t.Fatal(err)
	}
	out.await(t, "changed")
	var hosts map[string]string
	kubetest.Eventually(t, "there are hosts", func() error {
		text, err := os.ReadFile(HostsFile(r.options.Dir))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &hosts); err != nil {
			t.Fatal(err)
		}
		if len(hosts) == 0 {
			return fmt.Errorf("the file has %q", text)
		}
		return nil
	})
	host := "one." + ns + ".svc"
	if hosts[host] != address || hosts[host+":80"] != address+":8080" || len(hosts) != 2 {
		t.Errorf("the hosts are %v, the address is %s", hosts, address)
	}
	args := r.Commands()["one"]
	if len(args) != 3 || strings.Contains(args[2], " /data/") || strings.Contains(args[2], "/files/key)") && !strings.Contains(args[2], r.options.Dir) {
		t.Errorf("the command line is %q", args)
	}
	if err := kube.For[corev1.Pod](client).In(ns).Delete(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	out.await(t, "terminated")
	if _, err := os.Stat(filepath.Join(r.options.Dir, "volumes/kept/begun")); err != nil {
		t.Errorf("the volume is lost: %v", err)
	}
}

func create(t *testing.T, client *kube.Client, ns string) {
	t.Helper()
	secret := &corev1.Secret{StringData: map[string]string{"key": "of the secret"}}
	secret.Name = "files"
	if _, err := kube.For[corev1.Secret](client).In(ns).Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	service := &corev1.Service{Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": "one"}, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}},
	}}
	service.Name = "one"
	if _, err := kube.For[corev1.Service](client).In(ns).Create(t.Context(), service); err != nil {
		t.Fatal(err)
	}
	account := new(corev1.ServiceAccount)
	account.Name = "default"
	if _, err := kube.For[corev1.ServiceAccount](client).In(ns).Apply(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	no := false
	p := &corev1.Pod{Spec: corev1.PodSpec{
		AutomountServiceAccountToken: &no,
		Containers: []corev1.Container{{
			Name: "main", Image: "any", Command: []string{"/bin/sh", "-c"}, Args: []string{script},
			Env: []corev1.EnvVar{{Name: "GREETING", Value: "hello"}, {Name: "ADDRESS", Value: "ADDRESS-OF-POD"}},
			VolumeMounts: []corev1.VolumeMount{
				{Name: "files", MountPath: "/files"}, {Name: "data", MountPath: "/data"},
			},
		}},
		Volumes: []corev1.Volume{
			{Name: "files", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "files"}}},
			{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "kept"},
			}},
		},
	}}
	p.Name, p.Labels = "one", map[string]string{"app": "one"}
	// The scheduler waits for the claim, which nobody makes: the pod is placed by hand.
	p.Spec.NodeName = nodeOf(t, client)
	if _, err := kube.For[corev1.Pod](client).In(ns).Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
}

func nodeOf(t *testing.T, client *kube.Client) string {
	t.Helper()
	var name string
	kubetest.Eventually(t, "there is a node", func() error {
		for n, err := range kube.For[corev1.Node](client).List(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			name = n.Name
			return nil
		}
		return errors.New("there is none")
	})
	return name
}

package manifest

import (
	"crypto/tls"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/event"
	"github.com/pintle-go/pintle/lease"
)

// Options of the controllers decide which rights an operator gets.
func TestOptionsNeed(t *testing.T) {
	has := func(o Operator, namespace, resource string) bool {
		all, err := grants(o.needs(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range all {
			if g.namespace == namespace && g.resource == resource && g.verb == "create" {
				return true
			}
		}
		return false
	}
	o := Operator{Options: controller.Options{Events: new(event.Recorder), Authorize: true}}
	if !has(o, "", "events") || !has(o, "", "tokenreviews") {
		t.Error("not those of options")
	}
	if o := (Operator{Options: controller.Options{Routes: []controller.Route{{Authorize: true}}}}); !has(
		o, "", "tokenreviews",
	) {
		t.Error("not those of a route")
	}
	o.Needs = []Rules{Events("a")}
	if has(o, "", "events") || !has(o, "a", "events") {
		t.Error("not only where it was said")
	}
	if has(Operator{}, "", "events") {
		t.Error("without options too")
	}
}

// claimed gives a bundle a lease, and a volume with a claim.
func claimed(o *Operator, mode corev1.PersistentVolumeAccessMode) {
	o.Options.Lease = lease.Lease{Name: "mine"}
	claim := &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}
	o.Install.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: claim}}}
	o.Install.Mounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	o.Install.Objects = func(Operator) ([]any, error) {
		c := &corev1.PersistentVolumeClaim{TypeMeta: typed("v1", "PersistentVolumeClaim")}
		c.Name, c.Spec.AccessModes = "data", []corev1.PersistentVolumeAccessMode{mode}
		return []any{c}, nil
	}
}

// Lease, port and scheme come from the options.
func TestOptionsRender(t *testing.T) {
	base := Operator{Name: "a", Image: "x"}
	for name, test := range map[string]struct {
		change  func(o *Operator)
		want    []string
		without []string
	}{
		"no options": {func(*Operator) {}, []string{"type: Recreate"}, []string{"Probe", "kind: Service\n", "leases"}},
		"a short grace period": {
			func(o *Operator) { o.Options.Grace = 20 * time.Second }, nil, []string{"terminationGracePeriodSeconds"},
		},
		"a long grace period": {
			func(o *Operator) { o.Options.Grace = 90*time.Second + time.Millisecond },
			[]string{"terminationGracePeriodSeconds: 101"}, nil,
		},
		"an address": {
			func(o *Operator) { o.Options.Address = ":9090" },
			[]string{"containerPort: 9090", "name: http", "path: /readyz", "kind: Service\n", "port: 80\n"}, []string{"scheme"},
		},
		"a lease": {
			func(o *Operator) { o.Options.Lease = lease.Lease{Name: "mine", Namespace: "elsewhere"} },
			[]string{"leases", "- mine", "namespace: elsewhere"}, []string{"Recreate"},
		},
		"a lease and a volume for one pod": {
			func(o *Operator) { claimed(o, corev1.ReadWriteOnce) }, []string{"leases", "type: Recreate"}, nil,
		},
		"a lease and a volume for many pods": {
			func(o *Operator) { claimed(o, corev1.ReadWriteMany) }, []string{"leases"}, []string{"Recreate"},
		},
		"a lease and a claim of somebody else": {
			func(o *Operator) { claimed(o, ""); o.Install.Objects = nil }, []string{"type: Recreate"}, nil,
		},
		"a lease and a claim that is only read": {
			func(o *Operator) {
				claimed(o, corev1.ReadWriteOnce)
				o.Install.Volumes[0].PersistentVolumeClaim.ReadOnly = true
			},
			nil, []string{"Recreate"},
		},
		"TLS": {
			func(o *Operator) { o.Options.Address, o.Options.TLS = ":8443", new(tls.Config) },
			[]string{"scheme: HTTPS", "port: 443\n", "name: https"}, []string{"name: http\n", "volumes"},
		},
		"a directory with the certificate": {
			func(o *Operator) {
				o.Options.Address, o.Options.CertDir = ":8443", "/certs"
				o.Install.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: new(corev1.EmptyDirVolumeSource)}}}
				o.Install.Mounts = []corev1.VolumeMount{{Name: "v", MountPath: "/certs"}}
			},
			[]string{"scheme: HTTPS", "mountPath: /certs", "emptyDir: {}"}, nil,
		},
		"a Secret with the certificate": {
			func(o *Operator) { o.Options.Address, o.Install.TLSSecret = ":8443", "cert" },
			[]string{"scheme: HTTPS", "secretName: cert", "mountPath: /etc/tls", "readOnly: true"}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := base
			test.change(&o)
			text, err := o.YAML()
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range test.want {
				if !strings.Contains(string(text), want) {
					t.Errorf("no %q in\n%s", want, text)
				}
			}
			for _, not := range test.without {
				if strings.Contains(string(text), not) {
					t.Errorf("%q in\n%s", not, text)
				}
			}
			chart, err := o.chart()
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{"scheme: HTTPS", "secretName: cert", "emptyDir: {}"} {
				if strings.Contains(string(text), want) && !strings.Contains(string(chart["templates/deployment.yaml"]), want) {
					t.Errorf("no %q in the chart", want)
				}
			}
		})
	}
}

// An audit grants the rights that follow from options, and does not ask for their use: few
// tests repeat an event or wait for a lease.
func TestOptionsAudited(t *testing.T) {
	write := grant{namespace: "a", group: "events.k8s.io", resource: "events", verb: "create"}
	used := Audit{used: map[grant]bool{write: true}}
	o := Operator{Name: "farm", Image: "farm", Install: Install{Replicas: 2}}
	o.Options = controller.Options{Lease: lease.Lease{Name: "farm"}, Events: new(event.Recorder), Authorize: true}
	if err := used.Compare(o); err != nil {
		t.Error(err)
	}
	o.Needs = []Rules{Events("a")}
	if err := used.Compare(o); err == nil || err.Error() != "superfluous: the right to patch events.events.k8s.io in a" {
		t.Errorf("declared events: %v", err)
	}
	o.Options.Events, o.Needs = nil, nil
	if err := used.Compare(o); err == nil || err.Error() != "missing: the right to "+write.String() {
		t.Errorf("no events: %v", err)
	}
}

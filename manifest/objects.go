package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/pintle-go/pintle/internal/hooks"
	"github.com/pintle-go/pintle/internal/pki"
)

// part is one file of the chart: objects that belong together.
type part struct {
	name    string
	objects []any
}

const (
	nameLabel = "app.kubernetes.io/name"
	// probesName names the port of the pod that has only probes.
	probesName = "probes"
	nobody     = 65532
)

// Labels returns the labels of all objects. Those of the pods are the same, so a Service that
// selects them leads to the operator.
func (o Operator) Labels() map[string]string { return map[string]string{nameLabel: o.Name} }

func (o Operator) meta(namespace string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: o.Name, Namespace: namespace, Labels: o.Labels()}
}

func typed(apiVersion, kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}
}

// namespace returns the namespace in which the operator runs. It admits only pods that
// need no privilege.
func (o Operator) namespace() *corev1.Namespace {
	n := &corev1.Namespace{TypeMeta: typed("v1", "Namespace"), ObjectMeta: o.meta("")}
	n.Name = o.Install.Namespace
	n.Labels["pod-security.kubernetes.io/enforce"] = "restricted"
	return n
}

// parts returns all objects except the definitions and the namespace, in an order in
// which they can be created.
func (o Operator) parts() ([]part, error) {
	all, err := grants(o.needs(), o.Definitions)
	if err != nil {
		return nil, err
	}
	account := &corev1.ServiceAccount{TypeMeta: typed("v1", "ServiceAccount"), ObjectMeta: o.meta(o.Install.Namespace)}
	parts := []part{{"serviceaccount", []any{account}}}
	if roles := o.roles(all); len(roles) > 0 {
		parts = append(parts, part{"rbac", roles})
	}
	port, err := o.port()
	if err != nil {
		return nil, err
	}
	switch {
	case port == 0 && o.called():
		return nil, errors.New("webhooks need an Address in the Options")
	case port != 0:
		parts = append(parts, part{"service", []any{o.service()}})
	}
	if o.Install.Objects != nil {
		objects, err := o.Install.Objects(o)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part{"objects", objects})
	}
	parts = append(parts, part{"deployment", []any{o.deployment(parts)}})
	called, err := o.serving().Objects(hooks.Pods{Labels: o.Labels(), Ports: o.ports()}, o.place())
	if len(called) > 0 {
		parts = append(parts, part{"webhooks", called})
	}
	return parts, err
}

// ports returns the ports of the pods.
func (o Operator) ports() (all []int32) {
	for _, port := range []func() (int32, error){o.port, o.probePort} {
		if n, _ := port(); n != 0 { // withDefaults returns the errors
			all = append(all, n)
		}
	}
	return all
}

// roles returns a ClusterRole for the grants in all namespaces, a Role for each namespace
// that has grants of its own, and the bindings of these roles.
func (o Operator) roles(all []grant) []any {
	const group = "rbac.authorization.k8s.io"
	subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: o.Install.Namespace, Name: o.Name}}
	var objects []any
	namespaces, of := byNamespace(all)
	for _, namespace := range namespaces {
		rules := policies(of[namespace])
		meta := o.meta(namespace)
		if namespace == "" {
			objects = append(objects,
				&rbacv1.ClusterRole{TypeMeta: typed(group+"/v1", "ClusterRole"), ObjectMeta: meta, Rules: rules},
				&rbacv1.ClusterRoleBinding{
					TypeMeta: typed(group+"/v1", "ClusterRoleBinding"), ObjectMeta: meta, Subjects: subjects,
					RoleRef: rbacv1.RoleRef{APIGroup: group, Kind: "ClusterRole", Name: o.Name},
				})
			continue
		}
		objects = append(objects,
			&rbacv1.Role{TypeMeta: typed(group+"/v1", "Role"), ObjectMeta: meta, Rules: rules},
			&rbacv1.RoleBinding{
				TypeMeta: typed(group+"/v1", "RoleBinding"), ObjectMeta: meta, Subjects: subjects,
				RoleRef: rbacv1.RoleRef{APIGroup: group, Kind: "Role", Name: o.Name},
			})
	}
	return objects
}

// portName names the port of the pod and the Service.
func (o Operator) portName() string { return strings.ToLower(string(o.scheme())) }

func (o Operator) service() *corev1.Service {
	port := int32(80)
	if o.scheme() == corev1.URISchemeHTTPS {
		port = 443
	}
	return &corev1.Service{
		TypeMeta: typed("v1", "Service"), ObjectMeta: o.meta(o.Install.Namespace),
		Spec: corev1.ServiceSpec{
			Selector: o.Labels(),
			Ports: []corev1.ServicePort{{
				Name: o.portName(), Port: port, TargetPort: intstr.FromString(o.portName()),
			}},
		},
	}
}

// alone reports whether two pods of the operator must not run at the same time: without a lease both
// would reconcile, and the second waits for ever for a volume that one node or one process uses. A
// claim that is not among the objects of the bundle may be such a volume.
func (o Operator) alone(parts []part) bool {
	return o.Options.Lease.Name == "" || slices.ContainsFunc(o.Install.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && !v.PersistentVolumeClaim.ReadOnly && !shared(v.PersistentVolumeClaim.ClaimName, parts)
	})
}

// shared reports whether pods on several nodes can use the volume of a claim.
func shared(claim string, parts []part) bool {
	for _, p := range parts {
		for _, object := range p.objects {
			if c, ok := object.(*corev1.PersistentVolumeClaim); ok && c.Name == claim {
				return slices.Contains(c.Spec.AccessModes, corev1.ReadWriteMany)
			}
		}
	}
	return false
}

func (o Operator) deployment(parts []part) *appsv1.Deployment {
	d := &appsv1.Deployment{
		TypeMeta: typed("apps/v1", "Deployment"), ObjectMeta: o.meta(o.Install.Namespace),
		Spec: appsv1.DeploymentSpec{
			Replicas: &o.Install.Replicas,
			Selector: &metav1.LabelSelector{MatchLabels: o.Labels()},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: o.Labels()},
				Spec:       o.pod(),
			},
		},
	}
	if o.alone(parts) {
		d.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
	} else if o.called() {
		none, one := intstr.FromInt32(0), intstr.FromInt32(1)
		d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxUnavailable: &none, MaxSurge: &one}
		d.Spec.Template.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector: &metav1.LabelSelector{MatchLabels: o.Labels()},
		}}
	}
	return d
}

// terminationGrace returns nil for Kubernetes' default of 30 seconds, and otherwise the
// seconds that a pod needs to end by itself: its Grace, and ten seconds for the end of the
// process.
func (o Operator) terminationGrace() *int64 {
	if o.Options.Grace <= 20*time.Second {
		return nil
	}
	seconds := int64(math.Ceil(o.Options.Grace.Seconds())) + 10
	return &seconds
}

// pod returns a pod spec that the Pod Security Standard "restricted" admits.
func (o Operator) pod() corev1.PodSpec {
	yes, no, user, links := true, false, int64(nobody), false
	c := corev1.Container{
		Name:      o.Name,
		Image:     o.Image,
		Args:      o.Install.Args,
		Env:       o.env(),
		Resources: o.Install.Resources,
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: &no,
			ReadOnlyRootFilesystem:   &yes,
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
	// withDefaults has already returned the errors.
	port, _ := o.port()
	probes, _ := o.probePort()
	if port != 0 {
		c.Ports = append(c.Ports, corev1.ContainerPort{Name: o.portName(), ContainerPort: port})
	}
	if probes != 0 {
		c.Ports = append(c.Ports, corev1.ContainerPort{Name: probesName, ContainerPort: probes})
	}
	if len(c.Ports) > 0 {
		c.StartupProbe = &corev1.Probe{ProbeHandler: o.get("/healthz"), PeriodSeconds: 1, FailureThreshold: 60}
		c.LivenessProbe = &corev1.Probe{ProbeHandler: o.get("/healthz"), PeriodSeconds: 10}
		c.ReadinessProbe = &corev1.Probe{ProbeHandler: o.get("/readyz"), PeriodSeconds: 5}
	}
	security := &corev1.PodSecurityContext{
		RunAsNonRoot:   &yes,
		RunAsUser:      &user,
		RunAsGroup:     &user,
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	claims := func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil || v.Ephemeral != nil }
	if slices.ContainsFunc(o.Install.Volumes, claims) {
		security.FSGroup = &user // a fresh volume belongs to root
	}
	volumes := slices.Clone(o.Install.Volumes)
	c.VolumeMounts = slices.Clone(o.Install.Mounts)
	if o.Install.TLSSecret != "" {
		secret := &corev1.SecretVolumeSource{SecretName: o.Install.TLSSecret}
		at := cmp.Or(o.Options.CertDir, pki.MountDir)
		volumes = append(volumes, corev1.Volume{Name: "tls", VolumeSource: corev1.VolumeSource{Secret: secret}})
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "tls", MountPath: at, ReadOnly: true})
	}
	return corev1.PodSpec{
		ServiceAccountName:            o.Name,
		EnableServiceLinks:            &links,
		TerminationGracePeriodSeconds: o.terminationGrace(),
		SecurityContext:               security,
		Containers:                    []corev1.Container{c},
		Volumes:                       volumes,
	}
}

// get returns a probe that requests a path from the port of probes, or else from the
// operator's port. The kubelet does not verify the certificate.
func (o Operator) get(path string) corev1.ProbeHandler {
	if o.Options.ProbeAddress != "" {
		return corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString(probesName)}}
	}
	action := &corev1.HTTPGetAction{Path: path, Port: intstr.FromString(o.portName())}
	if o.scheme() == corev1.URISchemeHTTPS {
		action.Scheme = corev1.URISchemeHTTPS
	}
	return corev1.ProbeHandler{HTTPGet: action}
}

// env adds GOMEMLIMIT below the memory limit. The garbage collector then works harder
// before the kernel kills the process.
func (o Operator) env() []corev1.EnvVar {
	limit, ok := o.Install.Resources.Limits[corev1.ResourceMemory]
	for _, e := range o.Install.Env {
		ok = ok && e.Name != "GOMEMLIMIT"
	}
	if !ok {
		return o.Install.Env
	}
	soft := fmt.Sprintf("%dKiB", limit.Value()/10*9/1024)
	return append([]corev1.EnvVar{{Name: "GOMEMLIMIT", Value: soft}}, o.Install.Env...)
}

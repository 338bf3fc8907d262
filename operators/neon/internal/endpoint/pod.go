package endpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/cluster"
	"github.com/pintle-go/pintle/operators/neon/internal/place"
	"github.com/pintle-go/pintle/ready"
)

// The ports of a compute.
const (
	postgresPort = 55433
	httpPort     = 3080
	clientPort   = 5432 // of the Service
)

const (
	dataDir    = "/var/db/postgres"
	configDir  = "/config"
	configFile = "config.json"
	// restartAnnotation of a configuration changes when a compute must be restarted for it, and that
	// of a pod for any reason.
	restartAnnotation = "neon.pintle.dev/restart"
	// pullAnnotation of a pod names the Secrets for pulling its image.
	pullAnnotation = "neon.pintle.dev/pull-secrets"
)

// image is that of a compute, with the Secrets for pulling it.
type image struct {
	name    string
	secrets []corev1.LocalObjectReference
}

// secretNames returns the names of the Secrets, with a comma between them.
func (i image) secretNames() string {
	var names []string
	for _, s := range i.secrets {
		names = append(names, s.Name)
	}
	return strings.Join(names, ",")
}

func computeName(e *api.NeonEndpoint) string { return place.ComputeName(e.Name) }
func podName(e *api.NeonEndpoint) string     { return computeName(e) + "-0" }

func labels(e *api.NeonEndpoint) map[string]string {
	return map[string]string{
		"app.kubernetes.io/name": "neon", "app.kubernetes.io/instance": e.Name, "app.kubernetes.io/component": "compute",
	}
}

// podLabels say more of a compute than the labels by which it is selected.
func podLabels(e *api.NeonEndpoint, b *api.NeonBranch) map[string]string {
	all := labels(e)
	all[timelineLabel], all[modeLabel] = b.Status.TimelineID, mode(e).String()
	return all
}

// service is the address of an endpoint. It stays while the compute is suspended.
func service(e *api.NeonEndpoint) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: e.Name, Labels: labels(e)},
		Spec: corev1.ServiceSpec{Selector: labels(e), Ports: []corev1.ServicePort{
			{Name: "postgres", Port: clientPort, TargetPort: intstr.FromInt32(postgresPort)},
		}},
	}
}

// governing is the Service by which the operator reaches the compute, ready or not.
func governing(e *api.NeonEndpoint) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: computeName(e), Labels: labels(e)},
		Spec: corev1.ServiceSpec{
			Selector: labels(e), ClusterIP: corev1.ClusterIPNone, PublishNotReadyAddresses: true,
			Ports: []corev1.ServicePort{{Name: "http", Port: httpPort, TargetPort: intstr.FromInt32(httpPort)}},
		},
	}
}

// statefulSet runs the compute of an endpoint. A StatefulSet never runs two pods of a name,
// even if a node is lost: two computes on a timeline would break each other.
//
// It replaces no pod by itself. It would restart a compute for each change of its template, and
// would not replace a pod that is not ready. So the template can say with which configuration a
// pod is made, also if a running compute takes another one.
func statefulSet(
	e *api.NeonEndpoint, b *api.NeonBranch, from image, configuration *corev1.Secret, secure *security, runs bool,
) *appsv1.StatefulSet {
	replicas := int32(0)
	if runs {
		replicas = 1
	}
	no := false
	grace := int64(60)
	c := corev1.Container{
		Name: "compute", Image: from.name, Resources: resources(e),
		Command: []string{"compute_ctl"},
		Args: []string{
			"-D", dataDir + "/compute", "-C", fmt.Sprintf("postgresql://cloud_admin@localhost:%d/postgres", postgresPort),
			"-b", "/usr/local/bin/postgres", "--compute-id", e.Name, "-c", configDir + "/" + configFile,
		},
		Ports: []corev1.ContainerPort{
			{Name: "postgres", ContainerPort: postgresPort, Protocol: corev1.ProtocolTCP},
			{Name: "http", ContainerPort: httpPort, Protocol: corev1.ProtocolTCP},
		},
		VolumeMounts: []corev1.VolumeMount{
			{Name: "data", MountPath: dataDir}, {Name: "tmp", MountPath: "/tmp"},
			{Name: "shm", MountPath: "/dev/shm"}, {Name: "config", MountPath: configDir, ReadOnly: true},
		},
		// A compute that gets SIGTERM ends at once, with its sessions.
		Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{
			"/usr/local/bin/pg_ctl", "stop", "-D", dataDir + "/compute", "-m", "fast", "-w",
		}}}},
		StartupProbe: started(e),
		ReadinessProbe: &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(postgresPort)}},
			PeriodSeconds: 2, FailureThreshold: 3,
		},
		SecurityContext: cluster.RestrictedContainer(),
	}
	empty := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: podLabels(e, b)},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{c}, TerminationGracePeriodSeconds: &grace,
			AutomountServiceAccountToken: &no, EnableServiceLinks: &no,
			SecurityContext: cluster.RestrictedPod(), Affinity: spread(b.Status.TimelineID),
			Volumes: []corev1.Volume{
				{Name: "data", VolumeSource: empty}, {Name: "tmp", VolumeSource: empty},
				{Name: "shm", VolumeSource: sharedMemory(e)},
				{Name: "config", VolumeSource: corev1.VolumeSource{
					Secret: &corev1.SecretVolumeSource{SecretName: configuration.Name},
				}},
			},
		},
	}
	secure.mount(e, &template.Spec)
	template.Annotations = map[string]string{
		place.HashAnnotation: configuration.Annotations[place.HashAnnotation],
		restartAnnotation:    restartHash(template, configuration),
	}
	// A compute that runs has its image: other Secrets are for its next pod, and no reason for one.
	template.Spec.ImagePullSecrets = from.secrets
	if len(from.secrets) > 0 {
		template.Annotations[pullAnnotation] = from.secretNames()
	}
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: computeName(e), Labels: podLabels(e, b)},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, ServiceName: computeName(e), Template: template,
			Selector:       &metav1.LabelSelector{MatchLabels: labels(e)},
			UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType},
			// The default would never replace a pod that cannot start. With one pod, both never
			// run two of a name.
			PodManagementPolicy: appsv1.ParallelPodManagement,
		},
	}
}

// restartHash is of all that a compute takes by a restart only: its pod, and the parts of its
// configuration that it reads at its start.
func restartHash(template corev1.PodTemplateSpec, configuration *corev1.Secret) string {
	text, err := json.Marshal(template)
	if err != nil {
		panic(fmt.Sprintf("encode pod: %v", err)) // it has no value that cannot be encoded
	}
	sum := sha256.Sum256(append(text, configuration.Annotations[restartAnnotation]...))
	return hex.EncodeToString(sum[:16])
}

// placed judges the StatefulSet of a compute: whether it has as many pods as it shall have, ready
// or not. The compute in the pod is judged by itself.
func placed(s *appsv1.StatefulSet) ready.State {
	want := int32(0)
	if s.Spec.Replicas != nil {
		want = *s.Spec.Replicas
	}
	var message string
	switch {
	case s.Status.ObservedGeneration < s.Generation:
		message = "its controller has not looked at it"
	case s.Status.Replicas < want:
		message = "its pod is not created"
	case s.Status.Replicas > want:
		message = "its pod is ending"
	default:
		return ready.State{Phase: ready.Ready}
	}
	return ready.State{Phase: ready.Waiting, Message: message}
}

// cutLast cuts a text around the last instance of a separator.
func cutLast(text string, separator byte) (before, after string, found bool) {
	if i := strings.LastIndexByte(text, separator); i >= 0 {
		return text[:i], text[i+1:], true
	}
	return text, "", false
}

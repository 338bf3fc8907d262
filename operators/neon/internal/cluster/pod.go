package cluster

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"path"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/pintle-go/pintle/operators/neon/api"
)

// user is the user of upstream's images, and of the ones that the operator runs beside them.
const user = 1000

// part is a program with one pod.
type part struct {
	about     metav1.ObjectMeta
	image     string
	args      []string // the program and its arguments
	env       []corev1.EnvVar
	ports     []corev1.ContainerPort
	resources corev1.ResourceRequirements
	// started is a path that answers as soon as the program has started, and ready one that
	// answers while it can be used. Both are at the first port.
	started, ready string
	// answers is a command that succeeds while a program without HTTP can be used.
	answers []string
	// grace is the time in seconds that the program may take to end. Default: 30.
	grace int64
	// stop is a command that ends the program in order. Default: SIGTERM does.
	stop []string
	// files are mounted, by the paths of their directories.
	files map[string]corev1.VolumeSource
	// data is the directory of the volume.
	data string
	// inData are keys of the Secret of the part's name. Each is a file in the directory data.
	inData []string
	// zone is the zone that the pod must run in, empty for any.
	zone        string
	account     string // ServiceAccount of the pod
	pullSecrets []corev1.LocalObjectReference
	// configuration is read by the program at its start only. Another one restarts the pod.
	configuration string
	// credentials is a digest of those that the program reads at its start. Another one restarts the pod.
	credentials string
	// entryPoint says that args are for the image's entry point.
	entryPoint bool
	// secure says that the first port serves TLS. authority names the newest authority that the
	// program trusts. It reads them at its start only.
	secure    bool
	authority string
}

// RestrictedPod returns the security context of a pod that fulfils the standard "restricted"
// of Pod Security, with the account of Neon's images.
func RestrictedPod() *corev1.PodSecurityContext {
	yes, uid := true, int64(user)
	return &corev1.PodSecurityContext{
		RunAsNonRoot: &yes, RunAsUser: &uid, RunAsGroup: &uid, FSGroup: &uid,
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

// RestrictedContainer returns the security context of a container of such a pod.
func RestrictedContainer() *corev1.SecurityContext {
	no, yes := false, true
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes,
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

// template returns the pods of a part. They fulfil the standard "restricted" of Pod
// Security: https://kubernetes.io/docs/concepts/security/pod-security-standards.
func (p part) template() corev1.PodTemplateSpec {
	no := false
	main := corev1.Container{
		Name: "main", Image: p.image, Command: p.args[:1], Args: p.args[1:], Env: p.env, Ports: p.ports,
		Resources:       p.resources,
		SecurityContext: RestrictedContainer(),
	}
	if p.entryPoint {
		main.Command, main.Args = nil, p.args
	}
	if p.stop != nil {
		stop := &corev1.ExecAction{Command: p.stop}
		main.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: stop}}
	}
	port := p.ports[0].ContainerPort
	if p.started != "" {
		// A program may wait for others for as long as they take: no probe ends it before it
		// has started. A probe of the port would not do, because ports open early.
		main.StartupProbe = p.probe(p.started, port, 2, 1<<20)
		main.LivenessProbe = p.probe(p.started, port, 10, 6)
	}
	if p.ready != "" {
		main.ReadinessProbe = p.probe(p.ready, port, 2, 3)
	}
	if p.answers != nil {
		main.ReadinessProbe = &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: p.answers}},
			PeriodSeconds: 2, FailureThreshold: 3, TimeoutSeconds: 5,
		}
	}
	spec := corev1.PodSpec{
		SecurityContext:              RestrictedPod(),
		AutomountServiceAccountToken: &no, EnableServiceLinks: &no,
		ServiceAccountName: p.account, ImagePullSecrets: p.pullSecrets,
	}
	if p.grace > 0 {
		spec.TerminationGracePeriodSeconds = &p.grace
	}
	if p.zone != "" {
		spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: p.zone}
	}
	if p.about.Labels[idLabel] != "" {
		spec.Affinity = apart(p.about.Labels)
	}
	// Programs write temporary files.
	p.mount(&spec, &main, "tmp", "/tmp", scratch())
	if p.data != workDir && !p.entryPoint {
		// Upstream's image says that it is a volume, and has an archive there. The runtime would copy that
		// to the node's disk for each container.
		p.mount(&spec, &main, "work", workDir, scratch())
	}
	for i, dir := range slices.Sorted(maps.Keys(p.files)) {
		p.mount(&spec, &main, fmt.Sprintf("files-%d", i), dir, p.files[dir])
	}
	if p.data != "" {
		main.VolumeMounts = append(main.VolumeMounts, corev1.VolumeMount{Name: "data", MountPath: p.data})
	}
	if len(p.inData) > 0 {
		from := secretFiles(p.about.Name, p.inData...)
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: "in-data", VolumeSource: from})
	}
	for _, key := range p.inData {
		main.VolumeMounts = append(main.VolumeMounts, corev1.VolumeMount{
			Name: "in-data", MountPath: path.Join(p.data, key), SubPath: key, ReadOnly: true,
		})
	}
	spec.Containers = []corev1.Container{main}
	t := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: p.about.Labels}, Spec: spec}
	annotate := func(name, value string) {
		if value == "" {
			return
		}
		if t.Annotations == nil {
			t.Annotations = map[string]string{}
		}
		t.Annotations[name] = value
	}
	if p.configuration != "" {
		hash := sha256.Sum256([]byte(p.configuration))
		annotate("neon.pintle.dev/configuration", hex.EncodeToString(hash[:8]))
	}
	annotate(authorityAnnotation, p.authority)
	annotate(credentialsAnnotation, p.credentials)
	return t
}

// workDir is the directory in which the programs of upstream's storage image start.
const workDir = "/data"

// scratch is a directory on the node's disk for little. A pod that writes more is evicted.
func scratch() corev1.VolumeSource {
	limit := resource.MustParse("1Gi")
	return corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &limit}}
}

func (part) mount(spec *corev1.PodSpec, c *corev1.Container, name, dir string, from corev1.VolumeSource) {
	spec.Volumes = append(spec.Volumes, corev1.Volume{Name: name, VolumeSource: from})
	readOnly := from.Secret != nil || from.ConfigMap != nil || from.Projected != nil
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: dir, ReadOnly: readOnly})
}

// apart keeps the pods of a component on different nodes where there are enough.
func apart(labels map[string]string) *corev1.Affinity {
	others := map[string]string{instanceLabel: labels[instanceLabel], componentLabel: labels[componentLabel]}
	return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
			Weight: 100, PodAffinityTerm: corev1.PodAffinityTerm{
				LabelSelector: &metav1.LabelSelector{MatchLabels: others}, TopologyKey: corev1.LabelHostname,
			},
		}},
	}}
}

// probe asks a path. The kubelet does not check certificates.
func (p part) probe(url string, port, period, failures int32) *corev1.Probe {
	get := &corev1.HTTPGetAction{Path: url, Port: intstr.FromInt32(port)}
	if p.secure {
		get.Scheme = corev1.URISchemeHTTPS
	}
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: get}, PeriodSeconds: period, FailureThreshold: failures,
		TimeoutSeconds: 5,
	}
}

// deployment runs a part in one pod at a time.
func (p part) deployment() *appsv1.Deployment {
	one := int32(1)
	return &appsv1.Deployment{ObjectMeta: p.about, Spec: appsv1.DeploymentSpec{
		Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: p.about.Labels}, Template: p.template(),
		Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType},
	}}
}

// statefulSet runs a part in one pod with a volume. The volume outlives it: settleVolumes changes that at its
// end.
func (p part) statefulSet(v api.Volume, update appsv1.StatefulSetUpdateStrategyType) *appsv1.StatefulSet {
	one := int32(1)
	size := corev1.ResourceList{corev1.ResourceStorage: orDefault(v.Storage)}
	keep := appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	return &appsv1.StatefulSet{ObjectMeta: p.about, Spec: appsv1.StatefulSetSpec{
		Replicas: &one, ServiceName: p.about.Name,
		Selector: &metav1.LabelSelector{MatchLabels: p.about.Labels}, Template: p.template(),
		UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: update},
		// The default would never replace a pod that cannot start, such as one whose image is wrong.
		PodManagementPolicy: appsv1.ParallelPodManagement,
		VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
			ObjectMeta: metav1.ObjectMeta{Name: "data", Labels: p.about.Labels},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				StorageClassName: v.StorageClassName, Resources: corev1.VolumeResourceRequirements{Requests: size},
			},
		}},
		PersistentVolumeClaimRetentionPolicy: &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
			WhenDeleted: keep, WhenScaled: keep,
		},
	}}
}

// service leads to the pods of a part, whether they are ready or not if early is set.
func (p part) service(early bool) *corev1.Service {
	spec := corev1.ServiceSpec{Selector: p.about.Labels, ClusterIP: corev1.ClusterIPNone, PublishNotReadyAddresses: early}
	for _, port := range p.ports {
		spec.Ports = append(spec.Ports, corev1.ServicePort{
			Name: port.Name, Port: port.ContainerPort, TargetPort: intstr.FromInt32(port.ContainerPort),
		})
	}
	return &corev1.Service{ObjectMeta: p.about, Spec: spec}
}

func orDefault(q resource.Quantity) resource.Quantity {
	if q.IsZero() {
		return resource.MustParse("1Gi")
	}
	return q
}

func port(name string, number int32) corev1.ContainerPort {
	return corev1.ContainerPort{Name: name, ContainerPort: number, Protocol: corev1.ProtocolTCP}
}

func secretFiles(name string, keys ...string) corev1.VolumeSource {
	from := &corev1.SecretVolumeSource{SecretName: name}
	for _, k := range keys {
		from.Items = append(from.Items, corev1.KeyToPath{Key: k, Path: k})
	}
	return corev1.VolumeSource{Secret: from}
}

func secretEnv(name, secret, key string) corev1.EnvVar {
	from := &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: secret}, Key: key}
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: from}}
}

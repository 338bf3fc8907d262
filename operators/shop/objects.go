package main

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// about returns the metadata of a child, whose labels are those of its pods.
func (s *Shop) about(suffix string) metav1.ObjectMeta {
	labels := map[string]string{"app.kubernetes.io/part-of": s.Name, "app.kubernetes.io/instance": s.Name + suffix}
	return metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name + suffix, Labels: labels}
}

// access returns the environment of programs that use the database.
func (s *Shop) access(address *corev1.Service, password *corev1.Secret) []corev1.EnvVar {
	return []corev1.EnvVar{
		{Name: "DATABASE_HOST", Value: address.Name}, secretEnv("DATABASE_PASSWORD", password.Name, "password"),
	}
}

func secretEnv(name, secret, key string) corev1.EnvVar {
	from := &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: secret}, Key: key}
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: from}}
}

func service(about metav1.ObjectMeta, port int32) *corev1.Service {
	spec := corev1.ServiceSpec{Selector: about.Labels, Ports: []corev1.ServicePort{{Port: port}}}
	return &corev1.Service{ObjectMeta: about, Spec: spec}
}

func pod(about metav1.ObjectMeta, image string, env []corev1.EnvVar, args ...string) corev1.PodTemplateSpec {
	c := corev1.Container{Name: "main", Image: image, Args: args, Env: env}
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: about.Labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{c}},
	}
}

func deployment(about metav1.ObjectMeta, replicas int32, template corev1.PodTemplateSpec) *appsv1.Deployment {
	selector := &metav1.LabelSelector{MatchLabels: about.Labels}
	spec := appsv1.DeploymentSpec{Replicas: &replicas, Selector: selector, Template: template}
	return &appsv1.Deployment{ObjectMeta: about, Spec: spec}
}

// statefulSet returns a database of one pod with one volume.
func statefulSet(
	about metav1.ObjectMeta, service string, env []corev1.EnvVar, size resource.Quantity,
) *appsv1.StatefulSet {
	template := pod(about, "postgres:18", env)
	template.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/var/lib/postgresql"}}
	volume := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}}
	volume.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	volume.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: size}
	return &appsv1.StatefulSet{ObjectMeta: about, Spec: appsv1.StatefulSetSpec{
		ServiceName: service, Selector: &metav1.LabelSelector{MatchLabels: about.Labels}, Template: template,
		VolumeClaimTemplates: []corev1.PersistentVolumeClaim{volume},
	}}
}

package ready

import (
	corev1 "k8s.io/api/core/v1"
)

func service(s *corev1.Service) State {
	switch {
	case s.Spec.Type == corev1.ServiceTypeExternalName:
		return ready()
	case s.Spec.ClusterIP == "":
		return waiting("it has no cluster IP")
	case s.Spec.Type != corev1.ServiceTypeLoadBalancer:
		return ready()
	}
	for _, in := range s.Status.LoadBalancer.Ingress {
		if in.IP != "" || in.Hostname != "" {
			return ready()
		}
	}
	return waiting("the load balancer has no address")
}

func claim(c *corev1.PersistentVolumeClaim) State {
	switch c.Status.Phase {
	case corev1.ClaimBound:
		return ready()
	case corev1.ClaimLost:
		return failed("the claim has lost its volume %s", c.Spec.VolumeName)
	}
	return waiting("the claim is not bound")
}

func volume(v *corev1.PersistentVolume) State {
	switch v.Status.Phase {
	case corev1.VolumeAvailable, corev1.VolumeBound:
		return ready()
	case corev1.VolumeFailed:
		return failed("the volume failed: %s", v.Status.Message)
	}
	return waiting("the volume is not available")
}

func namespace(n *corev1.Namespace) State {
	if n.Status.Phase == corev1.NamespaceActive {
		return ready()
	}
	return waiting("the namespace is not active")
}

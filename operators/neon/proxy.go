package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/certificate"
	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/manifest"
	"github.com/pintle-go/pintle/operators/neon/internal/endpoint"
	"github.com/pintle-go/pintle/operators/neon/internal/proxy"
	"github.com/pintle-go/pintle/operators/neon/monitoring"
)

var (
	proxyAddress = flag.String("proxy", ":5432",
		"`address` at which clients wait for endpoints that are suspended; empty: none")
	proxyHost = flag.String("proxy-host", "",
		"`host:port` at which clients reach that address; default: its Service in the operator's namespace")
	proxyTLS = flag.String("proxy-tls", "self",
		"`directory` with tls.crt and tls.key for those clients; self: the program makes a certificate; off: no TLS")
	proxyConnections = flag.Int("proxy-connections", 1000,
		"`number` of clients that are connected at once; each takes up to 130 KiB of memory")
	proxySecret = flag.String("proxy-secret", "",
		"`name` of a Secret of type kubernetes.io/tls in the operator's namespace; the manifests mount it for -proxy-tls")
)

// proxySecretDir is the place at which the manifests mount the Secret of -proxy-secret.
const proxySecretDir = "/etc/neon-proxy"

// front is the proxy in front of the computes. Its zero value is none.
type front struct {
	place *endpoint.Proxy
	// certificate is the flag -proxy-tls, or the directory of the Secret that the manifests mount.
	certificate string
	issuer      *certificate.Issuer // nil without a certificate of its own
	tls         *tls.Config
	runnables   []controller.Runnable
	checks      []controller.Check
}

// proxyHostIn returns the address of the proxy's Service in a namespace.
func proxyHostIn(namespace string) string { return name + "-proxy." + namespace + ".svc:5432" }

// newFront returns the proxy that the flags describe.
func newFront(client *kube.Client) (front, error) {
	if *proxyAddress == "" {
		return front{}, nil
	}
	host, text, err := net.SplitHostPort(cmp.Or(*proxyHost, proxyHostIn(client.Namespace())))
	if err != nil {
		return front{}, fmt.Errorf("read flag -proxy-host: %w", err)
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return front{}, fmt.Errorf("read flag -proxy-host: port: %w", err)
	}
	f := front{certificate: *proxyTLS}
	if *proxySecret != "" {
		f.certificate = proxySecretDir
	}
	f.place = &endpoint.Proxy{Host: host, Port: int(port), TLS: f.certificate != "off"}
	switch f.certificate {
	case "off":
		return f, nil
	case "self":
		f.issuer = &certificate.Issuer{Client: client, Service: name + "-proxy", Names: []string{host}}
		f.tls = serverTLS(f.issuer.GetCertificate)
		f.runnables = []controller.Runnable{{Name: "proxy-certificate", Run: f.issuer.Run, EveryReplica: true}}
		f.checks = []controller.Check{{Name: "proxy-certificate", Ready: f.issuer.Ready}}
	default:
		files := &certificate.Files{Dir: f.certificate}
		f.tls = serverTLS(files.GetCertificate)
	}
	return f, nil
}

func serverTLS(get func(*tls.ClientHelloInfo) (*tls.Certificate, error)) *tls.Config {
	return &tls.Config{GetCertificate: get, MinVersion: tls.VersionTLS12}
}

// serve adds the server for the clients of all endpoints.
func (f *front) serve(computes *endpoint.Operator, dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	if f.place == nil {
		return
	}
	p := proxy.New(proxy.Config{
		Waker: endpoint.Waker{Operator: computes}, TLS: f.tls, Name: f.place.HostName, SplitUser: endpoint.SplitUser,
		MaxConnections: *proxyConnections, MaxGreetings: max(*proxyConnections/4, 10), Dial: dial, Log: slog.Default(),
	})
	f.runnables = append(f.runnables, controller.Runnable{
		Name: "proxy", EveryReplica: true, Run: func(ctx context.Context) error {
			l, err := new(net.ListenConfig).Listen(ctx, "tcp", *proxyAddress)
			if err != nil {
				return fmt.Errorf("listen for clients: %w", err)
			}
			return p.Serve(ctx, l, "")
		},
	})
}

// needs returns the rights of the proxy's certificate.
func (f *front) needs() []manifest.Rules {
	if f.issuer == nil {
		return nil
	}
	return []manifest.Rules{manifest.Issues(f.issuer)}
}

// deploy completes the manifests: with the flags, and with the mount of the Secret.
func (f *front) deploy(i *manifest.Install) {
	if f.place == nil {
		i.Args = append(i.Args, "-proxy=")
		return
	}
	if *proxySecret != "" {
		i.Volumes = append(i.Volumes, corev1.Volume{Name: "proxy-tls", VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{SecretName: *proxySecret},
		}})
		i.Mounts = append(i.Mounts, corev1.VolumeMount{Name: "proxy-tls", MountPath: proxySecretDir, ReadOnly: true})
	}
	host := cmp.Or(*proxyHost, proxyHostIn("$(POD_NAMESPACE)"))
	i.Args = append(i.Args, "-proxy-host="+host, "-proxy-tls="+f.certificate,
		fmt.Sprintf("-proxy-connections=%d", *proxyConnections))
	limit := resource.NewQuantity(128<<20+int64(*proxyConnections)*256<<10, resource.BinarySI)
	i.Resources = corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("64Mi")},
		Limits:   corev1.ResourceList{corev1.ResourceMemory: *limit},
	}
}

// objects returns the Service of the proxy and, if they are asked for, the objects by which the
// operator and its clusters are watched.
func (f *front) objects(o manifest.Operator) (all []any, err error) {
	if *monitored {
		if all, err = monitoring.Objects(o.Install.Namespace, o.Labels()); err != nil {
			return nil, err
		}
	}
	if f.place == nil {
		return all, nil
	}
	return append(all, &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Namespace: o.Install.Namespace, Name: o.Name + "-proxy", Labels: o.Labels()},
		Spec:       corev1.ServiceSpec{Selector: o.Labels(), Ports: []corev1.ServicePort{{Name: "postgres", Port: 5432}}},
	}), nil
}

package controlplane

import (
	"strconv"

	"github.com/pintle-go/pintle/cluster/internal/process"
)

// Names of the components, which are also names of programs and logs, and values of
// flags.
const (
	etcd              = "etcd"
	apiServer         = "kube-apiserver"
	controllerManager = "kube-controller-manager"
	scheduler         = "kube-scheduler"
)

// A Component is one program of the control plane.
type Component struct {
	Spec process.Spec
	// Ready is a URL that answers 200 when the component is ready for the first time.
	Ready string
	// ReadyAgain is a URL that answers 200 when the component is ready after a restart.
	ReadyAgain string
}

// bootstrapped is a query for the readiness of an API server that has made its objects
// before. These hooks make roles and priority classes. They sleep for a second before they
// look at them.
const bootstrapped = "?exclude=poststarthook/rbac/bootstrap-roles" +
	"&exclude=poststarthook/scheduling/bootstrap-system-priority-classes"

// Components returns the programs in their starting order.
func (p *Plane) Components() []Component {
	store := p.component(etcd, p.etcdArgs(), p.Ports.Etcd, "/health")
	store.Spec.Dir = p.Dir.Path("etcd") // the directory of the socket for peers
	server := p.component(apiServer, p.apiServerArgs(), p.Ports.APIServer, "/readyz")
	server.ReadyAgain += bootstrapped
	if p.Bootstrapped {
		server.Ready = server.ReadyAgain
	}
	all := []Component{store, server}
	if p.Settings.Controllers {
		all = append(all,
			p.component(controllerManager, p.controllerManagerArgs(), p.Ports.ControllerManager, "/healthz"),
			p.component(scheduler, p.schedulerArgs(), p.Ports.Scheduler, "/readyz"),
		)
	}
	return all
}

func (p *Plane) component(name string, args []string, port int, ready string) Component {
	return Component{
		Spec: process.Spec{
			Name: name,
			Path: p.Binary,
			Args: append([]string{name}, args...),
			Dir:  string(p.Dir),
			Env:  p.Environment(),
		},
		Ready:      loopbackURL(port) + ready,
		ReadyAgain: loopbackURL(port) + ready,
	}
}

func (p *Plane) etcdArgs() []string {
	// etcd requires a listener for peers, and there are none: a socket in its own
	// directory keeps them out, and needs no port.
	const peer = "unix://peer:0"
	return []string{
		"--data-dir=" + p.Dir.Path("etcd"),
		"--listen-client-urls=" + p.EtcdURL(),
		"--advertise-client-urls=" + p.EtcdURL(),
		"--client-cert-auth",
		"--trusted-ca-file=" + p.Etcd.CertFile,
		"--cert-file=" + p.files.etcd.CertFile,
		"--key-file=" + p.files.etcd.KeyFile,
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=default=" + peer,
		"--log-level=warn",
		"--log-outputs=stderr",

		// Every write reaches the kernel, so it survives the end of etcd, even a sudden
		// one, but perhaps not a power failure. Syncing every write would make a laptop's
		// cluster several times slower.
		"--unsafe-no-fsync",
		// A lone member elects itself, so it need not wait long for others.
		"--heartbeat-interval=10",
		"--election-timeout=100",
		"--quota-backend-bytes=8589934592", // 8 GiB
	}
}

func (p *Plane) apiServerArgs() []string {
	args := []string{
		"--bind-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(p.Ports.APIServer),
		"--tls-cert-file=" + p.files.apiServer.CertFile,
		"--tls-private-key-file=" + p.files.apiServer.KeyFile,

		"--etcd-servers=" + p.EtcdURL(),
		"--etcd-cafile=" + p.Etcd.CertFile,
		"--etcd-certfile=" + p.files.apiServerEtcd.CertFile,
		"--etcd-keyfile=" + p.files.apiServerEtcd.KeyFile,

		"--client-ca-file=" + p.CA.CertFile,
		"--authentication-config=" + p.files.authentication,
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement",
		"--allow-privileged",

		"--service-account-issuer=https://kubernetes.default.svc." + Domain,
		"--service-account-key-file=" + p.serviceAccount.PublicFile,
		"--service-account-signing-key-file=" + p.serviceAccount.PrivateFile,
		"--service-cluster-ip-range=" + p.Services.String(),

		"--kubelet-certificate-authority=" + p.CA.CertFile,
		"--kubelet-client-certificate=" + p.files.apiServerKubelet.CertFile,
		"--kubelet-client-key=" + p.files.apiServerKubelet.KeyFile,
		"--kubelet-preferred-address-types=InternalIP,Hostname",

		// For aggregated API servers: these flags let them recognize requests from this
		// API server.
		"--requestheader-client-ca-file=" + p.FrontProxy.CertFile,
		"--requestheader-allowed-names=" + frontProxyClient,
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + p.files.apiServerProxy.CertFile,
		"--proxy-client-key-file=" + p.files.apiServerProxy.KeyFile,

		// A cluster of 10,000 pods runs on this machine, together with all of its
		// clients.
		"--max-requests-inflight=3000",
		"--max-mutating-requests-inflight=1000",
		"--delete-collection-workers=8",
	}
	// The real node announces the API server. The API server's own announcement keeps the port of an
	// earlier API server that was killed.
	args = append(args, "--endpoint-reconciler-type=none")
	if p.Advertise.IsValid() {
		args = append(args, "--advertise-address="+p.Advertise.String(),
			// The API server reaches pods without kube-proxy. Without real pods aggregated API
			// servers run on this machine, and a Service of type ExternalName leads to them.
			"--enable-aggregator-routing")
	} else {
		// There is no address that pods could use. Without this flag the API server would look for an
		// address, and refuse to start on a machine without a network.
		args = append(args, "--advertise-address="+p.APIServerService().String())
	}
	if !p.Settings.Controllers {
		// Without a controller-manager there are no service accounts, and this plugin
		// would refuse pods.
		args = append(args, "--disable-admission-plugins=ServiceAccount")
	}
	return append(args, p.Settings.APIServerArgs...)
}

func (p *Plane) controllerManagerArgs() []string {
	kubeconfig := p.Dir.Path("kubeconfigs", controllerManager)
	args := []string{
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(p.Ports.ControllerManager),
		"--tls-cert-file=" + p.files.controllerManager.CertFile,
		"--tls-private-key-file=" + p.files.controllerManager.KeyFile,
		"--leader-elect=false",

		"--use-service-account-credentials",
		"--service-account-private-key-file=" + p.serviceAccount.PrivateFile,
		"--root-ca-file=" + p.CA.CertFile,
		"--client-ca-file=" + p.CA.CertFile,
		"--requestheader-client-ca-file=" + p.FrontProxy.CertFile,
		"--cluster-signing-cert-file=" + p.CA.CertFile,
		"--cluster-signing-key-file=" + p.CA.KeyFile,

		// The default directory, which the program creates if it runs as root, is in
		// /usr.
		"--flex-volume-plugin-dir=" + p.Dir.Path("volume-plugins"),

		"--allocate-node-cidrs",
		"--cluster-cidr=" + p.Pods.String(),
		"--service-cluster-ip-range=" + p.Services.String(),

		// The defaults suit clusters with many other clients: with them 300 Deployments
		// take over a minute.
		"--kube-api-qps=2000",
		"--kube-api-burst=4000",
	}
	for _, kind := range []string{
		"cron-job", "daemonset", "deployment", "endpoint", "job", "namespace", "rc", "replicaset",
		"service-endpoint", "serviceaccount-token", "statefulset", "ttl-after-finished",
	} {
		args = append(args, "--concurrent-"+kind+"-syncs=20")
	}
	return append(args, p.Settings.ControllerManagerArgs...)
}

func (p *Plane) schedulerArgs() []string {
	kubeconfig := p.Dir.Path("kubeconfigs", scheduler)
	return append([]string{
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(p.Ports.Scheduler),
		"--tls-cert-file=" + p.files.scheduler.CertFile,
		"--tls-private-key-file=" + p.files.scheduler.KeyFile,
		"--client-ca-file=" + p.CA.CertFile,
		"--requestheader-client-ca-file=" + p.FrontProxy.CertFile,
		"--leader-elect=false",
		"--kube-api-qps=2000",
		"--kube-api-burst=4000",
	}, p.Settings.SchedulerArgs...)
}

package definitions

import (
	acme "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	certmanager "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	addons1 "sigs.k8s.io/cluster-api/api/addons/v1beta1"
	addons2 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	bootstrap1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta1"
	bootstrap2 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplane1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta1"
	controlplane2 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	cluster1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	cluster2 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipam0 "sigs.k8s.io/cluster-api/api/ipam/v1alpha1"
	ipam1 "sigs.k8s.io/cluster-api/api/ipam/v1beta1"
	ipam2 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	extension1 "sigs.k8s.io/cluster-api/api/runtime/v1alpha1"
	extension2 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	gateway "sigs.k8s.io/gateway-api/apis/v1"
	gatewayalpha2 "sigs.k8s.io/gateway-api/apis/v1alpha2"
	gatewayalpha3 "sigs.k8s.io/gateway-api/apis/v1alpha3"
	gatewaybeta "sigs.k8s.io/gateway-api/apis/v1beta1"
	gatewayx "sigs.k8s.io/gateway-api/apisx/v1alpha1"
	autoscaling "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"
	karpenteralpha "sigs.k8s.io/karpenter/pkg/apis/v1alpha1"
)

// A project is a module that contains API types and the definitions that controller-gen
// made of them.
type project struct {
	module      string
	definitions string // the directory of the definitions
	// sources are the directories of packages whose types the kinds contain, beside the
	// package of the kind. MODULE//DIRECTORY is one of another module.
	sources []string
	kinds   []kind
}

func projects() []project {
	return []project{
		{"github.com/cert-manager/cert-manager", "deploy/crds",
			[]string{"pkg/apis/acme/v1", "pkg/apis/meta/v1", "sigs.k8s.io/gateway-api//apis/v1"}, []kind{
				of[certmanager.Certificate]("cert-manager.io_certificates"),
				of[certmanager.CertificateRequest]("cert-manager.io_certificaterequests"),
				of[certmanager.Issuer]("cert-manager.io_issuers"),
				of[certmanager.ClusterIssuer]("cert-manager.io_clusterissuers"),
				of[acme.Challenge]("acme.cert-manager.io_challenges"),
				of[acme.Order]("acme.cert-manager.io_orders"),
			}},
		{"sigs.k8s.io/gateway-api", "config/crd/experimental", []string{"apis/v1"}, []kind{
			of[gateway.BackendTLSPolicy]("gateway.networking.k8s.io_backendtlspolicies"),
			of[gatewayalpha3.BackendTLSPolicy]("gateway.networking.k8s.io_backendtlspolicies"),
			of[gateway.GatewayClass]("gateway.networking.k8s.io_gatewayclasses"),
			of[gatewaybeta.GatewayClass]("gateway.networking.k8s.io_gatewayclasses"),
			of[gateway.Gateway]("gateway.networking.k8s.io_gateways"),
			of[gatewaybeta.Gateway]("gateway.networking.k8s.io_gateways"),
			of[gateway.GRPCRoute]("gateway.networking.k8s.io_grpcroutes"),
			of[gateway.HTTPRoute]("gateway.networking.k8s.io_httproutes"),
			of[gatewaybeta.HTTPRoute]("gateway.networking.k8s.io_httproutes"),
			of[gateway.ListenerSet]("gateway.networking.k8s.io_listenersets"),
			of[gateway.ReferenceGrant]("gateway.networking.k8s.io_referencegrants"),
			of[gatewaybeta.ReferenceGrant]("gateway.networking.k8s.io_referencegrants"),
			of[gateway.TCPRoute]("gateway.networking.k8s.io_tcproutes"),
			of[gatewayalpha2.TCPRoute]("gateway.networking.k8s.io_tcproutes"),
			of[gateway.TLSRoute]("gateway.networking.k8s.io_tlsroutes"),
			of[gatewayalpha2.TLSRoute]("gateway.networking.k8s.io_tlsroutes"),
			of[gatewayalpha3.TLSRoute]("gateway.networking.k8s.io_tlsroutes"),
			of[gateway.UDPRoute]("gateway.networking.k8s.io_udproutes"),
			of[gatewayalpha2.UDPRoute]("gateway.networking.k8s.io_udproutes"),
			of[gatewayx.XBackend]("gateway.networking.x-k8s.io_xbackends"),
			of[gatewayx.XBackendTrafficPolicy]("gateway.networking.x-k8s.io_xbackendtrafficpolicies"),
			of[gatewayx.XMesh]("gateway.networking.x-k8s.io_xmeshes"),
		}},
		{"sigs.k8s.io/cluster-api", "config/crd/bases", []string{"api/core/v1beta1", "api/core/v1beta2"}, []kind{
			of[addons1.ClusterResourceSet]("addons.cluster.x-k8s.io_clusterresourcesets"),
			of[addons2.ClusterResourceSet]("addons.cluster.x-k8s.io_clusterresourcesets"),
			of[addons1.ClusterResourceSetBinding]("addons.cluster.x-k8s.io_clusterresourcesetbindings"),
			of[addons2.ClusterResourceSetBinding]("addons.cluster.x-k8s.io_clusterresourcesetbindings"),
			of[cluster1.Cluster]("cluster.x-k8s.io_clusters"),
			of[cluster2.Cluster]("cluster.x-k8s.io_clusters"),
			of[cluster1.ClusterClass]("cluster.x-k8s.io_clusterclasses"),
			of[cluster2.ClusterClass]("cluster.x-k8s.io_clusterclasses"),
			of[cluster1.Machine]("cluster.x-k8s.io_machines"),
			of[cluster2.Machine]("cluster.x-k8s.io_machines"),
			of[cluster1.MachineDeployment]("cluster.x-k8s.io_machinedeployments"),
			of[cluster2.MachineDeployment]("cluster.x-k8s.io_machinedeployments"),
			of[cluster1.MachineDrainRule]("cluster.x-k8s.io_machinedrainrules"),
			of[cluster2.MachineDrainRule]("cluster.x-k8s.io_machinedrainrules"),
			of[cluster1.MachineHealthCheck]("cluster.x-k8s.io_machinehealthchecks"),
			of[cluster2.MachineHealthCheck]("cluster.x-k8s.io_machinehealthchecks"),
			of[cluster1.MachinePool]("cluster.x-k8s.io_machinepools"),
			of[cluster2.MachinePool]("cluster.x-k8s.io_machinepools"),
			of[cluster1.MachineSet]("cluster.x-k8s.io_machinesets"),
			of[cluster2.MachineSet]("cluster.x-k8s.io_machinesets"),
			of[ipam0.IPAddress]("ipam.cluster.x-k8s.io_ipaddresses"),
			of[ipam1.IPAddress]("ipam.cluster.x-k8s.io_ipaddresses"),
			of[ipam2.IPAddress]("ipam.cluster.x-k8s.io_ipaddresses"),
			of[ipam0.IPAddressClaim]("ipam.cluster.x-k8s.io_ipaddressclaims"),
			of[ipam1.IPAddressClaim]("ipam.cluster.x-k8s.io_ipaddressclaims"),
			of[ipam2.IPAddressClaim]("ipam.cluster.x-k8s.io_ipaddressclaims"),
			of[extension1.ExtensionConfig]("runtime.cluster.x-k8s.io_extensionconfigs"),
			of[extension2.ExtensionConfig]("runtime.cluster.x-k8s.io_extensionconfigs"),
		}},
		{"sigs.k8s.io/cluster-api", "bootstrap/kubeadm/config/crd/bases", []string{"api/core/v1beta1", "api/core/v1beta2"},
			[]kind{
				of[bootstrap1.KubeadmConfig]("bootstrap.cluster.x-k8s.io_kubeadmconfigs"),
				of[bootstrap2.KubeadmConfig]("bootstrap.cluster.x-k8s.io_kubeadmconfigs"),
				of[bootstrap1.KubeadmConfigTemplate]("bootstrap.cluster.x-k8s.io_kubeadmconfigtemplates"),
				of[bootstrap2.KubeadmConfigTemplate]("bootstrap.cluster.x-k8s.io_kubeadmconfigtemplates"),
			}},
		{"sigs.k8s.io/cluster-api", "controlplane/kubeadm/config/crd/bases",
			[]string{"api/core/v1beta1", "api/core/v1beta2", "api/bootstrap/kubeadm/v1beta1",
				"api/bootstrap/kubeadm/v1beta2"}, []kind{
				of[controlplane1.KubeadmControlPlane]("controlplane.cluster.x-k8s.io_kubeadmcontrolplanes"),
				of[controlplane2.KubeadmControlPlane]("controlplane.cluster.x-k8s.io_kubeadmcontrolplanes"),
				of[controlplane1.KubeadmControlPlaneTemplate]("controlplane.cluster.x-k8s.io_kubeadmcontrolplanetemplates"),
				of[controlplane2.KubeadmControlPlaneTemplate]("controlplane.cluster.x-k8s.io_kubeadmcontrolplanetemplates"),
			}},
		{"sigs.k8s.io/karpenter", "pkg/apis/crds", []string{"github.com/awslabs/operatorpkg//status"}, []kind{
			of[autoscaling.CapacityBuffer]("autoscaling.x-k8s.io_capacitybuffers"),
			of[karpenter.NodeClaim]("karpenter.sh_nodeclaims"),
			of[karpenter.NodePool]("karpenter.sh_nodepools"),
			of[karpenteralpha.NodeOverlay]("karpenter.sh_nodeoverlays"),
		}},
	}
}

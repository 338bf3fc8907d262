package api

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/plan"
)

// A NeonCluster is the storage of Neon: an object store, a broker, a storage controller with
// its database, safekeepers and pageservers. Projects share it.
type NeonCluster struct {
	kube.Object
	Spec   ClusterSpec   `json:"spec"`
	Status ClusterStatus `json:"status,omitzero"`
	_      struct{}      `crd:"rule='!has(self.spec.tls) || has(oldSelf.spec.tls) || !has(self.status) || !has(self.status.tls)',message='tls is being removed: add it again when status.tls is gone'"`
	_      struct{}      `crd:"rule='self.metadata.name.matches(\"^[a-z][-a-z0-9]{0,29}$\")',message='the name must be a DNS label of at most 30 characters'"`
}

// GVK returns the kind.
func (NeonCluster) GVK() kube.GVK { return gvk("NeonCluster") }

// ClusterSpec is the wanted state of a NeonCluster.
type ClusterSpec struct {
	// Image of the storage programs, such as ghcr.io/neondatabase/neon:TAG.
	Image string `json:"image" crd:"minLength=1,column,priority=1"`
	// Images of the computes by major version of PostgreSQL, as in
	// "17": ghcr.io/neondatabase/compute-node-v17:TAG.
	ComputeImages map[string]string `json:"computeImages" crd:"minProperties=1"`
	// Object store, in which the data is kept.
	ObjectStore ObjectStore `json:"objectStore"`
	// PostgreSQL database of the storage controller. It is as precious as the object store.
	ControllerDatabase ControllerDatabase `json:"controllerDatabase"`
	// Broker, by which the programs find each other.
	Broker Program `json:"broker,omitzero"`
	// Storage controller, which places the data on the pageservers.
	StorageController Program `json:"storageController,omitzero"`
	// Safekeepers, which keep the newest part of the history.
	Safekeepers Safekeepers `json:"safekeepers"`
	// Pageservers, which serve the data's pages and cache them on volumes.
	Pageservers Pageservers `json:"pageservers"`
	// NetworkPolicies open the ports of the programs and of the computes to those who need
	// them, and close them to all others.
	NetworkPolicies Switch `json:"networkPolicies,omitempty" crd:"enum=On|Off,default=On"`
	// TLS encrypts the connections to the HTTP interfaces of the programs, to the broker, and of clients
	// to computes. Each program checks the certificates of the others. The WAL service of safekeepers and
	// the page service of pageservers stay plain. TLS can be added and removed while the cluster runs: all
	// programs are restarted, the safekeepers and pageservers twice, one at a time.
	TLS *TLS `json:"tls,omitempty"`
	// Secrets for pulling the images.
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
	// Whether the volumes, the keys and the objects in the store outlive the cluster.
	DeletionPolicy DeletionPolicy `json:"deletionPolicy" crd:"enum=Retain|Delete,default=Retain"`
}

// TLS says who signs the certificates of the programs and computes. Without an issuer it is a certificate
// authority of the cluster's own, in the Secret NAME-ca.
type TLS struct {
	// Issuer of cert-manager. Its authority must have an ECDSA key of P-256: computes read no other
	// certificates. The operator needs its flag -cert-manager.
	Issuer *Issuer  `json:"issuer,omitempty"`
	_      struct{} `crd:"rule='has(self.issuer) == has(oldSelf.issuer) && (!has(self.issuer) || self.issuer == oldSelf.issuer)',message='the issuer cannot change, because the programs trust its authority: remove tls, and add it again when status.tls is gone'"`
}

// Issuer names an issuer of cert-manager.
type Issuer struct {
	// Kind of the issuer. An Issuer is in the cluster's namespace.
	Kind string `json:"kind" crd:"enum=Issuer|ClusterIssuer,default=Issuer"`
	// Name of the issuer.
	Name string `json:"name" crd:"minLength=1"`
}

// ObjectStore says where the data is. Exactly one of the fields is set.
type ObjectStore struct {
	// S3 and services with its protocol.
	S3 *S3 `json:"s3,omitempty"`
	// Azure Blob Storage.
	Azure *Azure `json:"azure,omitempty"`
	// Google Cloud Storage.
	GCS *GCS `json:"gcs,omitempty"`
	// Managed is a store of one pod, for development.
	Managed *Managed `json:"managed,omitempty"`
	_       struct{} `crd:"rule='[has(self.s3), has(self.azure), has(self.gcs), has(self.managed)].filter(x, x).size() == 1',message='exactly one of s3, azure, gcs and managed must be set'"`
	_       struct{} `crd:"rule='has(self.s3) == has(oldSelf.s3) && has(self.azure) == has(oldSelf.azure) && has(self.gcs) == has(oldSelf.gcs)',message='the data is in the store that was named first: it cannot change'"`
}

// S3 is a bucket. It must exist.
type S3 struct {
	Bucket string `json:"bucket" crd:"minLength=1,immutable"`
	Region string `json:"region" crd:"minLength=1"`
	// Endpoint is the URL of a service other than AWS.
	Endpoint string `json:"endpoint,omitempty" crd:"pattern='^https?://'"`
	// Prefix of the objects' names in the bucket. Default: none.
	Prefix string `json:"prefix,omitempty" crd:"immutable"`
	// Secret with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. Without it, the pods use
	// the credentials of their ServiceAccount or node, and the operator does not try the bucket.
	SecretName string `json:"secretName,omitempty"`
	// ServiceAccount of the safekeepers and pageservers.
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
}

// Azure is a container. It must exist.
type Azure struct {
	Container string `json:"container" crd:"minLength=1,immutable"`
	Region    string `json:"region" crd:"minLength=1"`
	// Prefix of the objects' names in the container. Default: none.
	Prefix string `json:"prefix,omitempty" crd:"immutable"`
	// Secret with AZURE_STORAGE_ACCOUNT and AZURE_STORAGE_ACCESS_KEY.
	SecretName string `json:"secretName" crd:"minLength=1"`
}

// GCS is a bucket. It must exist. Not all releases of upstream's storage know such buckets.
type GCS struct {
	Bucket string `json:"bucket" crd:"minLength=1,immutable"`
	// Prefix of the objects' names in the bucket. Default: none.
	Prefix string `json:"prefix,omitempty" crd:"immutable"`
	// ServiceAccount of the safekeepers and pageservers, by which they log in.
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
}

// Managed is a program that the operator runs, in one pod with a volume.
type Managed struct {
	// Image of the program. Default: one that the operator was tested with.
	Image string `json:"image,omitempty"`
	// Volume of the program.
	Volume `json:",inline"`
}

// Volume says how large a volume is. It can grow if its StorageClass allows that.
type Volume struct {
	// Size of the volume.
	Storage resource.Quantity `json:"storage" crd:"default=1Gi"`
	// StorageClass of the volume. Default: the cluster's.
	StorageClassName *string `json:"storageClassName,omitempty"`
}

// ControllerDatabase is a PostgreSQL database. Exactly one of the fields is set.
type ControllerDatabase struct {
	// URL names the key of a Secret that holds the database's URL.
	URL *SecretKey `json:"url,omitempty"`
	// Managed is a PostgreSQL of one pod, for development. It is in the storage's image.
	Managed *Volume  `json:"managed,omitempty"`
	_       struct{} `crd:"rule='has(self.url) != has(self.managed)',message='exactly one of url and managed must be set'"`
}

// Program is about the pods of a program.
type Program struct {
	// Resources of each pod.
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`
}

// Safekeepers is about all safekeepers of a cluster.
type Safekeepers struct {
	// Number of safekeepers. Each timeline is on three of them.
	Count int32 `json:"count" crd:"min=3,max=99,default=3"`
	// Zones of the nodes, at least three, because a timeline's safekeepers are in different
	// zones. A safekeeper is made in the zone that has the fewest and stays in it. Without
	// zones, each safekeeper counts as a zone of its own.
	Zones []string `json:"zones,omitempty" crd:"listType=set,minItems=3"`
	// Lost are the ids of safekeepers that must not be used again, because their volumes
	// are lost. Others take their places: the timelines move, then the safekeepers are removed.
	Lost []int64 `json:"lost,omitempty" crd:"listType=set,items.min=1"`
	// Resources of each pod.
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`
	// Volume of each safekeeper.
	Volume `json:",inline"`
}

// Pageservers is about all pageservers of a cluster.
type Pageservers struct {
	// Number of pageservers.
	Count int32 `json:"count" crd:"min=1,max=99,default=1"`
	// Zones of the nodes. A pageserver is made in the zone that has the fewest and stays in it.
	// Without zones, each pageserver counts as a zone of its own.
	Zones []string `json:"zones,omitempty" crd:"listType=set"`
	// Time that a pageserver may take to hand its data to others before it is restarted, and to
	// take it back afterwards. 0 restarts it at once.
	DrainTimeoutSeconds int32 `json:"drainTimeoutSeconds" crd:"min=0,default=300"`
	// Resources of each pod.
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`
	// Volume of each pageserver.
	Volume `json:",inline"`
}

// ClusterStatus is the observed state of a NeonCluster.
type ClusterStatus struct {
	plan.Status `json:",inline"`
	// Safekeepers by id. One that leaves is here until it holds no timeline and is removed.
	Safekeepers []Member `json:"safekeepers,omitempty" crd:"listType=map,listMapKey=id"`
	// Pageservers by id. One that leaves is here until it is removed.
	Pageservers []Member `json:"pageservers,omitempty" crd:"listType=map,listMapKey=id"`
	// Ids of the members that come next. No id is used twice.
	NextSafekeeper int64 `json:"nextSafekeeper,omitempty"`
	NextPageserver int64 `json:"nextPageserver,omitempty"`
	// Safekeeper whose turn it is to be restarted, for a change of its image or configuration.
	SafekeeperTurn int64 `json:"safekeeperTurn,omitempty"`
	// Pageserver that is being restarted for the same reason.
	PageserverRoll *Roll `json:"pageserverRoll,omitempty"`
	// TLS of the programs. It is missing in a cluster without TLS.
	TLS *TLSStatus `json:"tls,omitempty"`
	// Generation of the spec that the status is about.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// TLSStatus is the state of the programs' TLS.
type TLSStatus struct {
	// Step is On, or a step of the change to it or from it: Offering, Joining, Moving and Closing.
	// A removal takes them backwards.
	Step string `json:"step" crd:"enum=Offering|Joining|Moving|Closing|On"`
	// Removing says that TLS is being removed.
	Removing bool `json:"removing,omitempty"`
	// Issuer of the certificates, if it is one of cert-manager.
	Issuer *Issuer `json:"issuer,omitempty"`
}

// Member is a safekeeper or a pageserver.
type Member struct {
	// ID by which the storage controller knows it.
	ID int64 `json:"id"`
	// Host of its port for PostgreSQL.
	Host string `json:"host"`
	// Zone that it is registered with. It stays the same.
	Zone string `json:"zone"`
	// State that the storage controller says it is in.
	State string `json:"state,omitempty"`
	// Leaving is the time since when the member is being removed.
	Leaving metav1.Time `json:"leaving,omitzero"`
	// Reason why it is being removed: Removed, because the spec asks for fewer, Lost, because
	// the spec says so, or Emptied, because its volume has lost the timelines.
	Reason string `json:"reason,omitempty"`
	// Evacuated says that no timeline is on the safekeeper any more.
	Evacuated bool `json:"evacuated,omitempty"`
}

// Roll is the restart of a pageserver.
type Roll struct {
	// ID of the pageserver.
	ID int64 `json:"id"`
	// Step is Draining, Restarting or Filling.
	Step string `json:"step"`
	// Time since when the step lasts.
	Since metav1.Time `json:"since"`
}

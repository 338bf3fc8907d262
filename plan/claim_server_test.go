package plan_test

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/plan"
)

// A claim whose StorageClass binds it at its first consumer does not block the consumer.
func TestClaimForItsFirstConsumer(t *testing.T) {
	for mode, blocks := range map[storagev1.VolumeBindingMode]bool{
		storagev1.VolumeBindingWaitForFirstConsumer: false, storagev1.VolumeBindingImmediate: true,
	} {
		t.Run(string(mode), func(t *testing.T) {
			s := newStubborn(t, true)
			client := s.op.shops.Client()
			class := &storagev1.StorageClass{Provisioner: "example.com/none", VolumeBindingMode: &mode}
			class.Name = s.class + "-late"
			_, err := kube.For[storagev1.StorageClass](client).Create(s.soon(), class)
			s.ok(err)
			describe := func(p *plan.Plan) {
				data := plan.Object(p, "data", kube.For[corev1.PersistentVolumeClaim](client).In(s.namespace),
					func(plan.Inputs) (*corev1.PersistentVolumeClaim, error) {
						o := new(corev1.PersistentVolumeClaim)
						o.Name, o.Labels = "late", map[string]string{"app": "late"}
						o.Spec.StorageClassName = &class.Name
						o.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
						o.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
						return o, nil
					})
				plan.Object(p, "user", s.op.secrets, func(in plan.Inputs) (*corev1.Secret, error) {
					o := new(corev1.Secret)
					o.Name, o.Labels = data.From(in).Name, map[string]string{"app": "late"}
					return o, nil
				}).Needs(data)
			}
			want := map[string]plan.State{"data": plan.Ready, "user": plan.Ready}
			if blocks {
				want = map[string]plan.State{"data": plan.Waiting, "user": plan.Blocked}
			}
			for range 3 { // with the claim as it was made, and as it is found
				kubetest.Eventually(s, "the nodes have their states", func() error {
					shop, err := s.op.shops.Get(s.soon(), "stubborn")
					s.ok(err)
					p := plan.New(s.op.shops, shop, &shop.Status.Status)
					describe(p)
					_, err = p.Run(s.soon())
					for _, n := range shop.Status.Nodes {
						if n.State != want[n.Name] {
							err = errors.Join(err, fmt.Errorf("%s is %s: %s", n.Name, n.State, n.Message))
						}
					}
					return err
				})
			}
			if _, err := s.op.secrets.Get(s.soon(), "late"); apierrors.IsNotFound(err) != blocks {
				t.Errorf("the consumer: %v", err)
			}
		})
	}
}

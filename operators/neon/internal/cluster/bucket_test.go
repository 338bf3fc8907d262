package cluster

import (
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/pintle-go/pintle/operators/neon/api"
)

// TestRemedies finds that an error of an object store says what to do.
func TestRemedies(t *testing.T) {
	c := new(api.NeonCluster)
	c.Spec.ObjectStore.S3 = &api.S3{SecretName: "login"}
	answer := func(status int, code string) error { return minio.ErrorResponse{StatusCode: status, Code: code} }
	for want, err := range map[string]error{
		": put keys that have not expired into Secret login":                                          answer(400, "ExpiredToken"),
		": correct the keys in Secret login":                                                          answer(403, "SignatureDoesNotMatch"),
		": correct spec.objectStore.s3.region":                                                        answer(400, "AuthorizationHeaderMalformed"),
		": correct the keys in Secret login, and let them list, read, write and delete in the bucket": answer(403, "AccessDenied"),
		": set the clock of the node":                                                                 answer(403, "RequestTimeTooSkewed"),
		": make room in the store":                                                                    answer(507, "XMinioStorageFull"),
		": check spec.objectStore.s3.endpoint, and that pods may connect to it":                       &net.OpError{Op: "dial", Err: errors.New("refused")},
		"": answer(500, "InternalError"),
	} {
		if got := remedy(c, fmt.Errorf("write object: %w", err)); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
	if got := remedy(new(api.NeonCluster), answer(403, "AccessDenied")); got != "" {
		t.Errorf("the managed store: %q", got)
	}
}

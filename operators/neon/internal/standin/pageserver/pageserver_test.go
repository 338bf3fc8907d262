package pageserver

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pintle-go/pintle/internal/leak"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/safekeeper"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
)

func TestMain(m *testing.M) { os.Exit(leak.Run(m)) }

func TestSettings(t *testing.T) {
	t.Parallel()
	good := map[string]string{
		"identity.toml":   "id=1\n",
		"metadata.json":   `{"host":"h","port":6400,"http_host":"h","http_port":9898,"availability_zone_id":"z"}`,
		"pageserver.toml": "control_plane_api='http://sc/upcall/v1/'\nremote_storage={local_path='x'}\nbogus=1\n[tenant_config]\n",
	}
	for name, c := range map[string]struct {
		change map[string]string
		want   string
	}{
		"good":             {nil, ""},
		"no identity":      {map[string]string{"identity.toml": ""}, "identity.toml"},
		"no control plane": {map[string]string{"pageserver.toml": "remote_storage={local_path='x'}"}, "control_plane_api"},
		"no zone":          {map[string]string{"metadata.json": `{"host":"h","port":1,"http_host":"h","http_port":2}`}, "availability zone"},
		"unknown auth":     {map[string]string{"pageserver.toml": good["pageserver.toml"] + "\n"}, ""},
		"too much of a disk": {map[string]string{
			"pageserver.toml": "control_plane_api='x'\ndisk_usage_based_eviction={max_usage_pct=101}\n",
		}, "disk_usage_based_eviction"},
		"key that is nowhere": {map[string]string{"pageserver.toml": "http_auth_type='NeonJWT'\ncontrol_plane_api='x'\n"}, "public_key"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for file, text := range good {
				if changed, ok := c.change[file]; ok {
					text = changed
				}
				if text == "" {
					continue
				}
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			s, err := readSettings(dir)
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				if len(s.Ignored) != 2 || s.Ignored[0] != "bogus" {
					t.Errorf("ignored keys are %v", s.Ignored)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestLSNOfTime(t *testing.T) {
	t.Parallel()
	moments := []safekeeper.Moment{{Micros: 10, LSN: 100}, {Micros: 20, LSN: 200}, {Micros: 30, LSN: 300}}
	for _, c := range []struct {
		moments []safekeeper.Moment
		micros  int64
		lsn     upstream.LSN
		kind    upstream.LSNKind
	}{
		{nil, 15, 50, upstream.LSNNoData},
		{moments, 9, 50, upstream.LSNPast},
		{moments, 10, 100, upstream.LSNPresent},
		{moments, 29, 200, upstream.LSNPresent},
		{moments, 30, 400, upstream.LSNFuture},
	} {
		lsn, kind := lsnAt(c.moments, time.UnixMicro(c.micros), 50, 400)
		if lsn != c.lsn || kind != c.kind {
			t.Errorf("at %d of %v: got %s %s, want %s %s", c.micros, c.moments, lsn, kind, c.lsn, c.kind)
		}
	}
}

package pageserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/pintle-go/pintle/operators/neon/internal/objects"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/wire"
	"github.com/pintle-go/pintle/operators/neon/internal/token"
)

// Settings are identity.toml, pageserver.toml and metadata.json.
type Settings struct {
	ID int64 `toml:"-"`

	ListenPG          string         `toml:"listen_pg_addr"`
	ListenHTTP        string         `toml:"listen_http_addr"`
	ListenHTTPS       string         `toml:"listen_https_addr"`
	ListenGRPC        string         `toml:"listen_grpc_addr"`
	Certificate       string         `toml:"ssl_cert_file"`
	Key               string         `toml:"ssl_key_file"`
	CA                string         `toml:"ssl_ca_file"`
	PagesByTLS        bool           `toml:"enable_tls_page_service_api"`
	ReloadPeriod      string         `toml:"ssl_cert_reload_period"`
	Broker            string         `toml:"broker_endpoint"`
	PGDistribution    string         `toml:"pg_distrib_dir"`
	ControlPlane      string         `toml:"control_plane_api"`
	ControlPlaneToken string         `toml:"control_plane_api_token"`
	HTTPAuth          string         `toml:"http_auth_type"`
	PGAuth            string         `toml:"pg_auth_type"`
	GRPCAuth          string         `toml:"grpc_auth_type"`
	PublicKeyPath     string         `toml:"auth_validation_public_key_path"`
	Zone              string         `toml:"availability_zone"`
	RemoteStorage     objects.Config `toml:"remote_storage"`
	Eviction          Eviction       `toml:"disk_usage_based_eviction"`

	// Ignored are keys that this program does not know. The real one warns of those that it
	// does not know.
	Ignored []string `toml:"-"`
	// Metadata is metadata.json, or nil.
	Metadata *Metadata `toml:"-"`
}

// Eviction says when pages leave a disk that is nearly full. The stand-in keeps all.
type Eviction struct {
	MaxUsage     uint8  `toml:"max_usage_pct"`
	MinAvailable uint64 `toml:"min_avail_bytes"`
	Period       string `toml:"period"`
}

// Metadata is how others reach a pageserver.
type Metadata struct {
	Host      string  `json:"host"`
	Port      int     `json:"port"`
	GRPCHost  *string `json:"grpc_host"`
	GRPCPort  *int    `json:"grpc_port"`
	HTTPHost  string  `json:"http_host"`
	HTTPPort  int     `json:"http_port"`
	HTTPSPort *int    `json:"https_port"`
	Zone      string  `json:"availability_zone_id"`
}

func readSettings(dir string) (Settings, error) {
	var identity struct {
		ID int64 `toml:"id"`
	}
	if _, err := toml.DecodeFile(filepath.Join(dir, "identity.toml"), &identity); err != nil {
		return Settings{}, fmt.Errorf("read identity.toml: %w", err)
	}
	s := Settings{
		ID: identity.ID, ListenPG: "127.0.0.1:64000", ListenHTTP: "127.0.0.1:9898", Certificate: "server.crt", Key: "server.key",
		Eviction: Eviction{MaxUsage: 80, MinAvailable: 2_000_000_000, Period: "60s"},
	}
	meta, err := toml.DecodeFile(filepath.Join(dir, "pageserver.toml"), &s)
	if err != nil {
		return Settings{}, fmt.Errorf("read pageserver.toml: %w", err)
	}
	for _, key := range meta.Undecoded() {
		s.Ignored = append(s.Ignored, key.String())
	}
	// The real program changes into its directory.
	for _, path := range []*string{&s.PublicKeyPath, &s.RemoteStorage.LocalPath} {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(dir, *path)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "metadata.json"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return Settings{}, fmt.Errorf("read metadata.json: %w", err)
	default:
		if err := json.Unmarshal(text, &s.Metadata); err != nil {
			return Settings{}, fmt.Errorf("read metadata.json: %w", err)
		}
		if s.Metadata.Zone == "" && s.Zone == "" {
			return Settings{}, errNoZone
		}
	}
	return s, s.validate()
}

// validate returns why the real program does not start.
func (s Settings) validate() error {
	if s.ControlPlane == "" {
		return errors.New("read pageserver.toml: control_plane_api is missing")
	}
	byToken := false
	for name, kind := range map[string]string{
		"http_auth_type": s.HTTPAuth, "pg_auth_type": s.PGAuth, "grpc_auth_type": s.GRPCAuth,
	} {
		if kind != "" && kind != "Trust" && kind != "NeonJWT" {
			return fmt.Errorf("read pageserver.toml: %s: unknown variant %q, expected Trust or NeonJWT", name, kind)
		}
		byToken = byToken || kind == "NeonJWT"
	}
	if byToken && s.PublicKeyPath == "" {
		return errors.New("read pageserver.toml: NeonJWT needs auth_validation_public_key_path")
	}
	if _, err := time.ParseDuration(s.Eviction.Period); err != nil || s.Eviction.MaxUsage > 100 {
		return fmt.Errorf("read pageserver.toml: disk_usage_based_eviction: invalid value: %+v", s.Eviction)
	}
	return nil
}

// readKey reads the key of tokens, at the start and on demand.
func (p *Pageserver) readKey() error {
	if p.HTTPAuth != "NeonJWT" {
		return nil
	}
	text, err := os.ReadFile(p.PublicKeyPath)
	if err != nil {
		return fmt.Errorf("read public key: %w", err)
	}
	key, err := token.ParsePublic(text)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.auth = wire.Auth{Key: &key}
	return nil
}

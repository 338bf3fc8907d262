package spec

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pintle-go/pintle/operators/neon/internal/token"
)

// modes lets cmp look into Mode.
var modes = cmp.AllowUnexported(Mode{})

const someVerifier = "SCRAM-SHA-256$4096:MDEyMzQ1Njc4OWFiY2RlZg==$IFBgxyYnRmwcFBz7puNzhmub2toIkG3Pmfx2HIbg3nQ=:" +
	"q9V45q3jkVUkKy6miKs9qzwfxltgyCh+Bik69COaYXY="

func input(mode Mode) Input {
	verifier := someVerifier
	return Input{
		Tenant: strings.Repeat("a", 31) + "1", Timeline: strings.Repeat("b", 31) + "1",
		Project: "p", Branch: "b", Endpoint: "ep-1", Mode: mode, PostgresVersion: 17,
		Shards:                []Place{{Pageserver: 1, Host: "127.0.0.1", Port: 6401}},
		Safekeepers:           []string{"127.0.0.1:5453", "127.0.0.1:5451", "127.0.0.1:5452", "127.0.0.1:5451"},
		SafekeepersGeneration: 1,
		Token:                 "<token>",
		Keys:                  []token.JWK{token.New().Public().JWK()},
		Roles:                 []Role{{Name: "app", EncryptedPassword: &verifier}},
		Databases:             []Database{{Name: "appdb", Owner: "app"}},
	}
}

// A rendered configuration has all that a real compute was given, with values that may
// differ only where they are about size and place.
func TestRenderHasWhatTheRecordedConfigurationsHave(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]Mode{
		"compute-primary.json": Primary(), "compute-replica.json": Replica(), "compute-static.json": Static("0/20C9440"),
	} {
		want, _ := recorded(t, name)
		in := input(mode)
		in.Tenant, in.Timeline = want.Spec.TenantID, want.Spec.TimelineID
		in.Safekeepers, in.SocketDirectory = want.Spec.Safekeepers, "/data"
		in.Settings = map[string]string{"max_connections": "50", "shared_buffers": "32MB"}
		got, err := Render(in)
		if err != nil {
			t.Fatal(err)
		}
		own := []string{"listen_addresses", "port", "neon.max_file_cache_size", "neon.file_cache_size_limit",
			"primary_conninfo"} // the order of the safekeepers
		for _, option := range want.Spec.Cluster.Settings {
			i := slices.IndexFunc(got.Spec.Cluster.Settings, func(o Option) bool { return o.Name == option.Name })
			if i < 0 {
				t.Errorf("%s: Render gives no %s", name, option.Name)
				continue
			}
			if have := got.Spec.Cluster.Settings[i]; !slices.Contains(own, option.Name) && have.Value != option.Value {
				t.Errorf("%s: %s = %s, recorded %s", name, option.Name, have.Value, option.Value)
			}
		}
		// The rest is the same.
		for _, c := range []*Config{&want, &got} {
			c.Spec.Cluster, c.Spec.OperationUUID, c.ComputeCtl, c.Spec.Pageservers = Cluster{}, "", ComputeCtl{}, Pageservers{}
			c.Spec.PageserverURLs = "" // the recorded ones have the later form alone
			c.Spec.Safekeepers, c.Spec.SafekeepersGeneration = safekeepers(c.Spec.Safekeepers), 1
		}
		if diff := cmp.Diff(want, got, modes); diff != "" {
			t.Errorf("%s (-recorded +rendered):\n%s", name, diff)
		}
	}
}

func TestPlacesOfShards(t *testing.T) {
	t.Parallel()
	in := input(Primary())
	in.StripeSize = 2048
	in.Shards = nil
	for i := range 20 {
		in.Shards = append(in.Shards, Place{Pageserver: uint64(i%3 + 1), Host: fmt.Sprintf("ps-%d", i%3), Port: 6400})
	}
	c, err := Render(in)
	if err != nil {
		t.Fatal(err)
	}
	stripe := uint32(2048)
	want := Pageservers{ShardCount: 20, StripeSize: &stripe, PreferProtocol: "libpq", Shards: map[string]Shard{}}
	for i := range 20 {
		want.Shards[fmt.Sprintf("%02x14", i)] = Shard{Pageservers: []Pageserver{{
			ID: uint64(i%3 + 1), URL: fmt.Sprintf("postgres://no_user@ps-%d:6400", i%3),
		}}}
	}
	if diff := cmp.Diff(want, c.Spec.Pageservers); diff != "" {
		t.Errorf("pageservers (-want +got):\n%s", diff)
	}
	// Older computes read the same from other fields.
	urls := strings.Split(c.Spec.PageserverURLs, ",")
	if len(urls) != 20 || urls[4] != "postgres://no_user@ps-1:6400" || c.Spec.ShardStripeSize == nil || *c.Spec.ShardStripeSize != stripe {
		t.Errorf("the former fields are %q and %v", c.Spec.PageserverURLs, c.Spec.ShardStripeSize)
	}
	in.StripeSize = 0
	if _, err := Render(in); err == nil || !strings.Contains(err.Error(), "20 without a stripe size") {
		t.Errorf("20 shards without a stripe size: %v", err)
	}
}

func TestSettingsThatStorageNeedsStay(t *testing.T) {
	t.Parallel()
	in := input(Primary())
	in.Settings = map[string]string{"Synchronous_Standby_Names": "", "wal_level": "minimal", "work_mem": "8MB"}
	_, err := Render(in)
	if !errors.Is(err, ErrInvalid) {
		t.Fatalf("Render: %v", err)
	}
	for _, name := range []string{"Synchronous_Standby_Names", "wal_level"} {
		if !strings.Contains(err.Error(), "setting "+name+": storage depends on it") {
			t.Errorf("no word of %s: %v", name, err)
		}
	}
	if strings.Contains(err.Error(), "work_mem") {
		t.Errorf("work_mem is refused: %v", err)
	}
}

func TestRandomInputs(t *testing.T) {
	t.Parallel()
	key := token.New().Public().JWK()
	rapid.Check(t, func(t *rapid.T) {
		in := randomInput(t, key)
		c, err := Render(in)
		if err != nil {
			t.Fatalf("a valid input gives no configuration: %v", err)
		}
		other := in
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		other.Roles, other.Databases = shuffled(random, in.Roles), shuffled(random, in.Databases)
		other.Safekeepers = append(shuffled(random, in.Safekeepers), in.Safekeepers...)
		again, err := Render(other)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c, again, modes); diff != "" {
			t.Errorf("the order of the input shows (-first +second):\n%s", diff)
		}
		if Hash(c) != Hash(again) {
			t.Error("the hash differs")
		}
		data := text(c)
		decoded, err := Decode([]byte(data))
		if err != nil {
			t.Fatal(err)
		}
		if text(decoded) != data {
			t.Error("the configuration changes when it is read and written")
		}
		if hot, why := Hot(c, decoded); !hot {
			t.Errorf("no change at all needs a restart: %s", why)
		}
		in.Token += "x"
		if renewed, err := Render(in); err != nil || Hash(renewed) == Hash(c) {
			t.Errorf("another token has the same hash, or an error: %v", err)
		}
	})
}

func shuffled[T any](random *rand.Rand, list []T) []T {
	list = slices.Clone(list)
	random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

func randomInput(t *rapid.T, key token.JWK) Input {
	hex := rapid.StringMatching(`[0-9a-f]{32}`)
	name := rapid.StringMatching(`[a-zA-ZäöüéЯ中"' \\._-][a-zA-Z0-9äöü"' \\._-]{0,20}`)
	roles := rapid.SliceOfNDistinct(name, 1, 6, func(s string) string { return s }).Draw(t, "roles")
	in := Input{
		Tenant: hex.Draw(t, "tenant"), Timeline: hex.Draw(t, "timeline"),
		Project: "p", Branch: "b", Endpoint: "e", Token: "secret", Keys: []token.JWK{key},
		Mode:            rapid.SampledFrom([]Mode{Primary(), Replica(), Static("0/16B3748")}).Draw(t, "mode"),
		PostgresVersion: rapid.IntRange(14, 17).Draw(t, "version"),
		Memory:          rapid.Int64Range(0, 1<<42).Draw(t, "memory"),
		FileCache:       rapid.Int64Range(0, 1<<42).Draw(t, "cache"),
		Settings:        map[string]string{"work_mem": "4MB", "log_line_prefix": "'%m \\"},
	}
	for _, role := range roles {
		if strings.HasPrefix(role, "pg_") {
			role = "x" + role
		}
		verifier := verifier(role, []byte("salt"), 1)
		in.Roles = append(in.Roles, Role{Name: role, EncryptedPassword: &verifier})
	}
	for i, database := range rapid.SliceOfNDistinct(name, 0, 4, func(s string) string { return s }).Draw(t, "databases") {
		in.Databases = append(in.Databases, Database{Name: database, Owner: in.Roles[i%len(in.Roles)].Name})
	}
	shards := rapid.IntRange(1, 40).Draw(t, "shards")
	if shards > 1 || rapid.Bool().Draw(t, "sharded") {
		in.StripeSize = rapid.Uint32Range(1, 1<<20).Draw(t, "stripe")
	}
	for i := range shards {
		in.Shards = append(in.Shards, Place{Pageserver: uint64(i), Host: fmt.Sprintf("ps-%d.ns.svc", i), Port: 6400})
	}
	for i := range rapid.IntRange(1, 5).Draw(t, "safekeepers") {
		in.Safekeepers = append(in.Safekeepers, fmt.Sprintf("sk-%d.ns.svc:5454", i))
	}
	return in
}

// TestMegabytes reads sizes as PostgreSQL does.
func TestMegabytes(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]int64{
		"512": 512 << 20, "0": 0, " 2 GB ": 2 << 30, "1024kB": 1 << 20, "3TB": 3 << 40, "7B": 7,
		"": -1, "-1": -1, "2gb": -1, "1.5GB": -1, "999999999999TB": -1, "x": -1,
	} {
		got, ok := Megabytes(value)
		if ok != (want >= 0) || ok && got != want {
			t.Errorf("Megabytes(%q) = %d, %t", value, got, ok)
		}
	}
}

package spec

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pintle-go/pintle/operators/neon/internal/pgtest"
)

// The example of RFC 7677, section 3.
func TestVerifierOfTheRFC(t *testing.T) {
	t.Parallel()
	salt, err := base64.StdEncoding.DecodeString("W22ZaJ0SNY7soEsUEjb6gQ==")
	if err != nil {
		t.Fatal(err)
	}
	made := verifier("pencil", salt, 4096)
	_, key, _ := strings.Cut(made[strings.LastIndex(made, "$"):], ":")
	server, err := base64.StdEncoding.DecodeString(key)
	if err != nil {
		t.Fatal(err)
	}
	const nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
	message := "n=user,r=rOprNGfwEbeRWgbNEkqO,r=" + nonce + ",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r=" + nonce
	signature := base64.StdEncoding.EncodeToString(keyed(server, message))
	if want := "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="; signature != want {
		t.Errorf("the server's signature is %s, want %s", signature, want)
	}
}

func TestVerifiersKnowTheirPassword(t *testing.T) {
	t.Parallel()
	a, b := Verifier("secret"), Verifier("secret")
	if a == b {
		t.Error("two verifiers have the same salt")
	}
	if !Verifies(a, "secret") || Verifies(a, "Secret") || Verifies("", "") || Verifies(strings.Repeat("0", 32), "secret") {
		t.Error("Verifies is wrong")
	}
}

// PostgreSQL lets in a client with the password of our verifiers, and no other. It makes the
// same verifiers of the same salt.
func TestVerifiersOfPostgres(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	ctx := t.Context()
	admin, err := pgx.Connect(ctx, server.Local("cloud_admin", "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(context.WithoutCancel(ctx))
	for _, password := range []string{
		"secret", "with space and 'quote'", "ünïcödé", "I\u00ADX", "\u2168", "\u00AA", "a\u00A0b", "\u0627\u0031", "長い" + strings.Repeat("x", 200),
	} {
		quoted := "'" + strings.ReplaceAll(password, "'", "''") + "'"
		var theirs string
		if _, err := admin.Exec(ctx, "drop role if exists app, other"); err != nil {
			t.Fatal(err)
		}
		if _, err := admin.Exec(ctx, "create role other password "+quoted); err != nil {
			t.Fatal(err)
		}
		if err := admin.QueryRow(ctx, "select rolpassword from pg_authid where rolname = 'other'").Scan(&theirs); err != nil {
			t.Fatal(err)
		}
		if !Verifies(theirs, password) {
			t.Errorf("%q: PostgreSQL's verifier is not ours", password)
		}
		if _, err := admin.Exec(ctx, "create role app login password '"+Verifier(password)+"'"); err != nil {
			t.Fatal(err)
		}
		if said, err := login(ctx, server, password); err != nil {
			t.Errorf("%q: log in: %v: %s", password, err, said)
		}
		if _, err := login(ctx, server, password+"x"); err == nil {
			t.Errorf("%q: a wrong password logs in", password)
		}
	}
}

// login logs in with PostgreSQL's own client: pgx prepares some passwords otherwise.
func login(ctx context.Context, server *pgtest.Server, password string) ([]byte, error) {
	where := fmt.Sprintf("host=127.0.0.1 port=%d user=app dbname=postgres", server.Port)
	psql := exec.CommandContext(ctx, "psql", where, "-c", "select 1")
	psql.Env = append(os.Environ(), "PGPASSWORD="+password, "PGCLIENTENCODING=UTF8")
	return psql.CombinedOutput()
}

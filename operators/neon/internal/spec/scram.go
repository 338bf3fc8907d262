package spec

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/xdg-go/stringprep"
)

const (
	scram = "SCRAM-SHA-256$"
	// iterations and saltSize are those of PostgreSQL.
	iterations = 4096
	saltSize   = 16
)

// Verifier returns a verifier of a password (RFC 5803, RFC 7677) with a random salt. It lets
// nobody log in, but it tells a guess of the password: it is secret too. Make it once and
// keep it, because another verifier of the same password is a change of the role.
func Verifier(password string) string {
	salt := make([]byte, saltSize)
	if _, err := rand.Read(salt); err != nil {
		panic(fmt.Sprintf("make salt: %v", err)) // crypto/rand never fails
	}
	return verifier(password, salt, iterations)
}

// Verifies tells whether a verifier is of this password. Other forms than SCRAM-SHA-256
// verify nothing.
func Verifies(of, password string) bool {
	count, salt, ok := parameters(of)
	return ok && hmac.Equal([]byte(verifier(password, salt, count)), []byte(of))
}

func verifier(password string, salt []byte, count int) string {
	salted, err := pbkdf2.Key(sha256.New, prepared(password), salt, count, sha256.Size)
	if err != nil {
		panic(fmt.Sprintf("derive key: %v", err)) // only sizes that no caller gives fail
	}
	stored := sha256.Sum256(keyed(salted, "Client Key"))
	encode := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("%s%d:%s$%s:%s", scram, count, encode(salt), encode(stored[:]), encode(keyed(salted, "Server Key")))
}

func keyed(key []byte, text string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

// prepared is the password as clients and PostgreSQL prepare it: by SASLprep, and as it is
// if SASLprep refuses it.
func prepared(password string) string {
	text, err := stringprep.SASLprep.Prepare(password)
	if err != nil || text == "" {
		return password
	}
	return text
}

var (
	scramForm = regexp.MustCompile(`^SCRAM-SHA-256\$([0-9]{1,7}):([A-Za-z0-9+/=]+)\$[A-Za-z0-9+/]{43}=:[A-Za-z0-9+/]{43}=$`)
	md5Form   = regexp.MustCompile(`^[0-9a-f]{32}$`)
)

// parameters returns the count of iterations and the salt of a verifier.
func parameters(of string) (count int, salt []byte, ok bool) {
	parts := scramForm.FindStringSubmatch(of)
	if parts == nil {
		return 0, nil, false
	}
	count, err := strconv.Atoi(parts[1])
	if err != nil || count < 1 {
		return 0, nil, false
	}
	salt, err = base64.StdEncoding.DecodeString(parts[2])
	return count, salt, err == nil && len(salt) > 0
}

// storable tells whether a compute takes a text for a verifier. All that does not begin as
// SCRAM does, it takes for md5.
func storable(text string) bool {
	if strings.HasPrefix(text, scram) {
		_, _, ok := parameters(text)
		return ok
	}
	return md5Form.MatchString(text)
}

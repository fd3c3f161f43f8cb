package functions

import (
	"crypto/md5"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"unicode/utf8"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"golang.org/x/crypto/bcrypt"
)

// textFunc makes a function of a text that cannot fail.
func textFunc(f func(string) string) function.Function {
	return textErrFunc(func(s string) (string, error) { return f(s), nil })
}

// textErrFunc makes a function of a text that may fail.
func textErrFunc(f func(string) (string, error)) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "str", Type: cty.String}},
		Type:   function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			out, err := f(args[0].AsString())
			if err != nil {
				return cty.NilVal, err
			}
			return cty.StringVal(out), nil
		},
	})
}

func base64Encode(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
func urlEncode(s string) string    { return url.QueryEscape(s) }

func md5Hex(s string) string    { h := md5.Sum([]byte(s)); return hex.EncodeToString(h[:]) }
func sha1Hex(s string) string   { h := sha1.Sum([]byte(s)); return hex.EncodeToString(h[:]) }
func sha256Hex(s string) string { h := sha256.Sum256([]byte(s)); return hex.EncodeToString(h[:]) }
func sha512Hex(s string) string { h := sha512.Sum512([]byte(s)); return hex.EncodeToString(h[:]) }

var base64DecodeFunc = textErrFunc(func(s string) (string, error) {
	raw, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return "", fmt.Errorf("not valid base64: %w", err)
	}
	if !utf8.Valid(raw) {
		return "", errors.New("the decoded bytes are not UTF-8 text")
	}
	return string(raw), nil
})

// maxBcryptCost keeps one call within about a second.
const maxBcryptCost = 14

var bcryptFunc = function.New(&function.Spec{
	Params:   []function.Parameter{{Name: "str", Type: cty.String}},
	VarParam: &function.Parameter{Name: "cost", Type: cty.Number},
	Type:     function.StaticReturnType(cty.String),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		cost := bcrypt.DefaultCost
		if len(args) > 2 {
			return cty.NilVal, errors.New("bcrypt takes a text and at most one cost")
		}
		if len(args) == 2 {
			n, _ := args[1].AsBigFloat().Int64()
			cost = int(n)
		}
		if cost < bcrypt.MinCost || cost > maxBcryptCost {
			return cty.NilVal, fmt.Errorf("the cost must be between %d and %d", bcrypt.MinCost, maxBcryptCost)
		}
		out, err := bcrypt.GenerateFromPassword([]byte(args[0].AsString()), cost)
		if err != nil {
			return cty.NilVal, fmt.Errorf("bcrypt: %w", err)
		}
		return cty.StringVal(string(out)), nil
	},
})

// rsaDecryptFunc decrypts base64 text with a PEM private key (PKCS #1 v1.5 padding).
var rsaDecryptFunc = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "ciphertext", Type: cty.String}, {Name: "privatekey", Type: cty.String}},
	Type:   function.StaticReturnType(cty.String),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		raw, err := base64.StdEncoding.DecodeString(args[0].AsString())
		if err != nil {
			return cty.NilVal, function.NewArgErrorf(0, "the ciphertext is not valid base64")
		}
		key, err := rsaKey([]byte(args[1].AsString()))
		if err != nil {
			return cty.NilVal, function.NewArgError(1, err)
		}
		//lint:ignore SA1019 job files that exist hold texts with this padding, and their author alone sees the error
		out, err := rsa.DecryptPKCS1v15(nil, key, raw)
		if err != nil {
			return cty.NilVal, errors.New("the ciphertext cannot be decrypted with this key")
		}
		return cty.StringVal(string(out)), nil
	},
})

func rsaKey(text []byte) (*rsa.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("the private key is not PEM")
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("the private key cannot be read: %w", err)
	}
	key, ok := parsed.(*rsa.PrivateKey)
	if !ok {
		return nil, errors.New("the private key is not an RSA key")
	}
	return key, nil
}

var uuidV4Func = function.New(&function.Spec{
	Type: function.StaticReturnType(cty.String),
	Impl: func([]cty.Value, cty.Type) (cty.Value, error) {
		var u [16]byte
		if _, err := rand.Read(u[:]); err != nil {
			return cty.NilVal, fmt.Errorf("no randomness: %w", err)
		}
		return cty.StringVal(uuidText(u, 4)), nil
	},
})

// uuidSpaces are the named name spaces of RFC 9562.
var uuidSpaces = map[string]string{
	"dns":  "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
	"url":  "6ba7b811-9dad-11d1-80b4-00c04fd430c8",
	"oid":  "6ba7b812-9dad-11d1-80b4-00c04fd430c8",
	"x500": "6ba7b814-9dad-11d1-80b4-00c04fd430c8",
}

var uuidV5Func = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "namespace", Type: cty.String}, {Name: "name", Type: cty.String}},
	Type:   function.StaticReturnType(cty.String),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		space := args[0].AsString()
		if named, ok := uuidSpaces[space]; ok {
			space = named
		}
		raw, err := uuidBytes(space)
		if err != nil {
			return cty.NilVal, function.NewArgErrorf(0, "the name space must be dns, url, oid, x500 or a UUID")
		}
		sum := sha1.Sum(append(raw, args[1].AsString()...))
		var u [16]byte
		copy(u[:], sum[:])
		return cty.StringVal(uuidText(u, 5)), nil
	},
})

func uuidBytes(s string) ([]byte, error) {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return nil, errors.New("not a UUID")
	}
	return hex.DecodeString(s[:8] + s[9:13] + s[14:18] + s[19:23] + s[24:])
}

func uuidText(u [16]byte, version byte) string {
	u[6] = u[6]&0x0f | version<<4
	u[8] = u[8]&0x3f | 0x80
	h := hex.EncodeToString(u[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

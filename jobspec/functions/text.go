package functions

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
	"golang.org/x/crypto/bcrypt"
)

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

// reverseFunc turns a text around by its characters, as other parsers of these files do, or a list.
var reverseFunc = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "value", Type: cty.DynamicPseudoType, AllowDynamicType: true}},
	Type: func(args []cty.Value) (cty.Type, error) {
		if args[0].Type() == cty.String {
			return cty.String, nil
		}
		return stdlib.ReverseListFunc.ReturnTypeForValues(args)
	},
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		if args[0].Type() == cty.String {
			return stdlib.ReverseFunc.Call(args)
		}
		return stdlib.ReverseListFunc.Call(args)
	},
})

// maxBcryptCost keeps one call within about a second.
const maxBcryptCost = 14

func smallCost(args []cty.Value) error {
	if len(args) < 2 || !args[1].IsKnown() || args[1].IsNull() || args[1].Type() != cty.Number {
		return nil
	}
	cost, err := wholeNumber(args[1])
	if err != nil || !cost.IsInt64() || cost.Int64() < int64(bcrypt.MinCost) || cost.Int64() > maxBcryptCost {
		return fmt.Errorf("the cost must be between %d and %d", bcrypt.MinCost, maxBcryptCost)
	}
	return nil
}

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
		// Job files that exist hold texts with this padding, and their author alone sees the error
		out, err := rsa.DecryptPKCS1v15(nil, key, raw) //nolint:staticcheck // see above
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

package hclfile

import (
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strings"
	"sync"

	"github.com/zclconf/go-cty/cty"
)

var sizeText = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^\s*([0-9]{1,30}(?:\.[0-9]{1,9})?)\s*([a-zA-Z]*)\s*$`)
})

// sizeUnits are the units of a size, in lower case: powers of 1000, and with an i powers of 1024.
var sizeUnits = func() map[string]*big.Int {
	units := map[string]*big.Int{"": big.NewInt(1), "b": big.NewInt(1)}
	dec, bin := big.NewInt(1), big.NewInt(1)
	for _, letter := range "kmgtpe" {
		dec = new(big.Int).Mul(dec, big.NewInt(1000))
		bin = new(big.Int).Mul(bin, big.NewInt(1024))
		for _, suffix := range []string{"", "b"} {
			units[string(letter)+suffix] = dec
			units[string(letter)+"i"+suffix] = bin
		}
	}
	return units
}()

// ParseSize reads a size in bytes: a whole number, or a number with a unit. 10GB and 10G are decimal, 10GiB and 10Gi
// binary; letters may be small.
func ParseSize(text string) (int64, error) {
	m := sizeText().FindStringSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("%q is not a size; write one like \"10GiB\", \"500MB\" or a number of bytes",
			shorten(text))
	}
	unit, ok := sizeUnits[strings.ToLower(m[2])]
	if !ok {
		return 0, fmt.Errorf(
			"the size %q has the unknown unit %q; use B, kB, MB, GB, TB, PB or KiB, MiB, GiB, TiB, PiB", shorten(text),
			m[2])
	}
	n, ok := new(big.Rat).SetString(m[1])
	if !ok {
		return 0, fmt.Errorf("%q is not a size", shorten(text))
	}
	n.Mul(n, new(big.Rat).SetInt(unit))
	switch {
	case !n.IsInt():
		return 0, fmt.Errorf("the size %q is not a whole number of bytes", shorten(text))
	case !n.Num().IsInt64():
		return 0, fmt.Errorf("the size %q is larger than %d bytes", shorten(text), int64(math.MaxInt64))
	}
	return n.Num().Int64(), nil
}

func toBytes(v cty.Value) (int64, error) {
	if v.Type() == cty.String {
		return ParseSize(v.AsString())
	}
	n, err := toInteger(v)
	if err != nil {
		return 0, fmt.Errorf("must be a size like \"10GiB\" or a number of bytes, not %s", Describe(v))
	}
	if n.Sign() < 0 {
		return 0, fmt.Errorf("the size %s is negative", shorten(n.String()))
	}
	if !n.IsInt64() {
		return 0, fmt.Errorf("the size %s is larger than %d bytes", shorten(n.String()), int64(math.MaxInt64))
	}
	return n.Int64(), nil
}

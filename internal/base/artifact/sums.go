package artifact

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"net/url"
	"path"
	"strings"

	"berth/internal/base/fault"
)

// Checksum is what a file has to add up to. Its zero value asks for nothing.
type Checksum struct {
	Type string // md5, sha1, sha256 or sha512
	Hex  string
	File string // the address of a list of checksums that has it, which is asked first
}

// sums are the kinds of checksums, by the number of their digits.
var sums = map[int]string{32: "md5", 40: "sha1", 64: "sha256", 128: "sha512"}

// checksum reads "sha256:0123…", the digits alone, or "file:ADDRESS" of a list, which may be relative to the source.
func checksum(source string, of *url.URL, text string) (Checksum, error) {
	if text == "" {
		return Checksum{}, nil
	}
	kind, digits, named := strings.Cut(text, ":")
	if !named {
		kind, digits = "", text
	}
	if strings.EqualFold(kind, "file") {
		return listed(source, of, digits)
	}
	if sum, ok := sumOf(kind, digits); ok {
		return sum, nil
	}
	return Checksum{}, bad(source, fmt.Sprintf("checksum %q is none", text),
		"write sha256: or sha512: (md5, sha1) and as many hexadecimal digits as it has, or file: and the address of a "+
			"list of them")
}

// sumOf is the checksum of a kind, or, where that is empty, of the kind that has as many digits.
func sumOf(kind, digits string) (Checksum, bool) {
	_, err := hex.DecodeString(digits)
	is := sums[len(digits)]
	if err != nil || is == "" || kind != "" && !strings.EqualFold(kind, is) {
		return Checksum{}, false
	}
	return Checksum{Type: is, Hex: strings.ToLower(digits)}, true
}

func listed(source string, of *url.URL, at string) (Checksum, error) {
	where, err := of.Parse(at)
	if err != nil || at == "" || where.Scheme != "https" && where.Scheme != "http" || where.Hostname() == "" {
		return Checksum{}, bad(source, "a list of checksums comes from an address alone",
			"write checksum = \"file:https://HOST/SHA256SUMS\"")
	}
	where.Fragment = ""
	return Checksum{File: where.String()}, nil
}

// SumIn is the checksum of a file in a list, which has lines as sha256sum writes them (DIGITS NAME), as BSD's programs
// do (SHA256 (NAME) = DIGITS), or the digits of one file and nothing else.
func SumIn(list []byte, name string) (Checksum, error) {
	var only []Checksum
	for raw := range bytes.Lines(list) {
		line := strings.TrimSpace(string(raw))
		if sum, ok := sumOf("", line); ok {
			only = append(only, sum)
			continue
		}
		if sum, of := sumOfLine(line); of != "" && path.Base(of) == name {
			return sum, nil
		}
	}
	if len(only) == 1 {
		return only[0], nil
	}
	return Checksum{}, fault.WithHint(
		fault.New(fault.Invalid, "", "", fmt.Sprintf("the list of checksums has none of %q", name)),
		"it has lines as sha256sum writes them; or write the checksum itself")
}

// sumOfLine reads one line; the name is empty where it is none.
func sumOfLine(line string) (sum Checksum, name string) {
	if kind, rest, bsd := strings.Cut(line, " ("); bsd && !strings.ContainsAny(kind, " \t") {
		if at := strings.LastIndex(rest, ") = "); at >= 0 {
			if sum, ok := sumOf(strings.ReplaceAll(kind, "-", ""), rest[at+len(") = "):]); ok {
				return sum, rest[:at]
			}
		}
	}
	digits, rest, two := strings.Cut(line, " ")
	if sum, ok := sumOf("", digits); ok && two {
		return sum, strings.TrimPrefix(strings.TrimLeft(rest, " "), "*")
	}
	return Checksum{}, ""
}

package params

import (
	"strings"
	"testing"
)

// Given bodies with escaped characters, then whole ones pass, and halves are refused wherever they stand.
func TestABodyIsText(t *testing.T) {
	for body, want := range map[string]string{
		``:                           "",
		`{"ID":"a"}`:                 "",
		`{"ID":"\u00e9\n"}`:          "",
		`{"ID":"\ud83d\ude00"}`:      "",
		`{"ID":"\uD83D\uDE00\\u"}`:   "",
		`{"ID":"\\ud800"}`:           "",
		`{"ID":"\u`:                  "",
		`\`:                          "",
		`{"ID":"\ufffd"}`:            "",
		`{"ID":"\ud800"}`:            "half of a character",
		`{"ID":"\uDFFF"}`:            "half of a character",
		`{"ID":"\ud83dx\ude00"}`:     "half of a character",
		`{"ID":"\ud83d\ud83d\ude00"`: "half of a character",
		`{"ID":"\\\ud800"}`:          "half of a character",
		`{"ID":"\ud83d\u0041"}`:      "half of a character",
		"{\"ID\":\"\xed\xa0\x80\"}":  "not UTF-8",
	} {
		err := Text([]byte(body))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", body, err, want)
		}
	}
}

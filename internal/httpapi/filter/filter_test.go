package filter_test

import (
	"strings"
	"testing"

	"berth/internal/httpapi/filter"
)

type thing struct{ N int }

func all(t *thing) any { return t }

func TestMistakesAreReported(t *testing.T) {
	for expr, want := range map[string]string{
		"N ==":         "failed to create result paginator: failed to read filter expression",
		"Nothing == 1": "failed to read result page: error finding value in datum",
	} {
		_, err := filter.Of(expr, []*thing{{1}}, all)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v", expr, err)
		}
	}
}

func TestWhatTheExpressionIsTrueOfIsLeft(t *testing.T) {
	for expr, want := range map[string]int{"N == 2": 1, "N != 3": 2, "": 2} {
		shown, err := filter.Of(expr, []*thing{{1}, {2}}, all)
		if err != nil || len(shown) != want || shown[len(shown)-1].N != 2 {
			t.Errorf("%q left %v, %v", expr, shown, err)
		}
	}
}

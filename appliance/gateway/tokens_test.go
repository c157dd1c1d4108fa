package gateway_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"viiwork/appliance/gateway"
)

func TestTokensAreEstimatedBeforeAnythingIsMeasured(t *testing.T) {
	var s gateway.TokenScale
	for _, c := range []struct{ text, data, want int }{{0, 0, 0}, {4000, 0, 1000}, {4000, 2, 3000}, {-5, -1, 0}, {1, 0, 0}, {2, 0, 1}} {
		if got := s.Estimate(c.text, c.data); got != c.want {
			t.Errorf("%d bytes, %d parts: %d tokens, want %d", c.text, c.data, got, c.want)
		}
	}
}

// TestAModelsTokensAreLearnt: with a handful of prompts the estimate is the model's own, for text and for pictures.
func TestAModelsTokensAreLearnt(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, bytesPerToken := range []float64{1.5, 3, 4, 6} {
		for _, perPicture := range []int{256, 1000, 4000} {
			var s gateway.TokenScale
			for range 40 {
				text := 4000 + r.IntN(200_000)
				noise := 0.95 + r.Float64()/10
				s.Learn(text, 0, int(float64(text)/bytesPerToken*noise))
			}
			for range 40 {
				s.Learn(2000, 3, int(2000/bytesPerToken)+3*perPicture)
				s.Learn(400_000, 1, int(400_000/bytesPerToken*0.95)) // mostly text: nothing is to be learnt of pictures
			}
			if got, want := s.Estimate(120_000, 0), 120_000/bytesPerToken; float64(got) < 0.9*want || float64(got) > 1.1*want {
				t.Errorf("%v bytes a token: %d tokens, want %v", bytesPerToken, got, want)
			}
			if got := s.Estimate(0, 10); float64(got) < 5*float64(perPicture) || float64(got) > 15*float64(perPicture) {
				t.Errorf("%v bytes a token, %d a picture: ten have %d", bytesPerToken, perPicture, got)
			}
		}
	}
}

// TestWhatCannotBeTeachesNothing: an engine's count of another prompt, or of none, moves the estimate little or not at all.
func TestWhatCannotBeTeachesNothing(t *testing.T) {
	var s gateway.TokenScale
	for _, c := range []struct{ text, data, tokens int }{
		{4000, 0, 0}, {4000, 0, -7}, {0, 0, 1000}, {1 << 40, 0, 100}, {-1, 0, 1000}, {100, 0, 1 << 40}, {40, 0, 20}, {4000, -1, 1000},
		{4000, 1, 1}, {4000, 1, 900}, {0, 1, 1 << 40}, {4000, 1 << 40, 2000},
	} {
		s.Learn(c.text, c.data, c.tokens)
	}
	if s.Estimate(4000, 0) != 1000 || s.Estimate(0, 1) != 1000 {
		t.Errorf("%d and %d", s.Estimate(4000, 0), s.Estimate(0, 1))
	}
	for range 50 {
		s.Learn(40_000, 0, 10_000)
	}
	before := s.Estimate(40_000, 0)
	s.Learn(40_000, 0, 1100) // 36 bytes a token: a prompt of blanks
	if got := s.Estimate(40_000, 0); got < before*85/100 || got >= before {
		t.Errorf("one strange prompt makes %d of %d", got, before)
	}
}

// TestAPromptIsCountedFromWhatItsEngineKnows: of the steps whose tokens were counted nothing is guessed.
func TestAPromptIsCountedFromWhatItsEngineKnows(t *testing.T) {
	var s gateway.TokenScale
	p := prefixOf(t, chatPath, conversation("S", []string{strings.Repeat("a", 40_000), strings.Repeat("b", 4000)}))
	if got := s.Prompt(p, 0, 77); got < 11_000 || got > 11_050 {
		t.Errorf("all guessed: %d", got)
	}
	if got := s.Prompt(p, 2, 5000); got < 6000 || got > 6020 {
		t.Errorf("the first message counted: %d", got)
	}
	if got := s.Prompt(p, p.Steps(), 5800); got != 5800 {
		t.Errorf("all counted: %d", got)
	}
	if got := s.Prompt(p, 1000, -5); got != 0 {
		t.Errorf("beyond its end: %d", got)
	}
}

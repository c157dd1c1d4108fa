package engine

// Placement says whether an engine's processes sit on the cards they were given.
type Placement int

const (
	PlacementUnknown Placement = iota // cannot be read here; never acted on
	PlacementRight
	PlacementWrong // seen on other cards
)

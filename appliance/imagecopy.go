package appliance

import (
	"errors"
	"io/fs"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/labstack/echo/v4"

	"viiwork/appliance/gateway"
	"viiwork/appliance/imagecopy"
	"viiwork/appliance/mesh"
	"viiwork/images"
	"viiwork/images/papers"
)

// mountImages adds what members ask for to take engines' images from here, and by what this machine's own 'images pull' asks them.
func (a *Appliance) mountImages(e *echo.Echo) {
	give := a.amongFellows(func(f *fellows) http.Handler { return f.copies })
	e.GET(imagecopy.PapersPath, give)
	e.GET(imagecopy.PartsPath, give)
	e.GET(imagecopy.PiecePath, give)
	e.GET("/api/engineimages", a.trusted(a.getImageOffers))
	e.GET("/api/engineimages/parts", a.trusted(a.getImageParts))
	e.GET("/api/engineimages/piece", a.trusted(a.getImagePiece))
}

// imageCopies gives the images that were fetched here to members. In an open mesh, where anybody is one, it gives none: an
// image takes room and time to lay out.
func (a *Appliance) imageCopies(f *fellows) *imagecopy.Server {
	state := a.current().Node.StateDir
	return imagecopy.NewServer(imagecopy.ServerConfig{
		Verifier: f.verifier, Docker: a.docker, Papers: papers.FolderIn(state), Dir: filepath.Join(state, "image-layers"), Free: freeAt, Log: a.log,
		Find: func(digest string) (string, bool) {
			book, err := images.OpenBook(images.BookFile(state)) // other processes write it
			if err != nil {
				return "", false
			}
			held, ok := book.Digest(digest)
			return held.ID, ok
		},
		Member: func(id string) bool {
			return a.mesh.keys.Load().Secured() && slices.ContainsFunc(others(f), func(m mesh.Member) bool { return m.ID == id })
		},
	})
}

// imageAsked is who asks members for an image, and its digest; an error where this node has no place in a mesh whose members
// could be asked.
func (a *Appliance) imageAsked(c echo.Context) (*imagecopy.Fetcher, string, error) {
	f := a.mesh.current()
	if f == nil {
		return nil, "", errNotInMesh
	}
	digest := c.QueryParam("digest")
	if !papers.IsDigest(digest) {
		return nil, "", &gateway.Error{Status: http.StatusBadRequest, Code: "bad_request", Message: "digest is an image's: sha256: and 64 hexadecimal digits"}
	}
	return imagecopy.NewFetcher(imagecopy.FetcherConfig{Client: f.client, Members: func() []mesh.Member { return others(f) }}), digest, nil
}

// getImageOffers tells which members have an image. Nothing of it has been checked.
func (a *Appliance) getImageOffers(c echo.Context) error {
	f, digest, err := a.imageAsked(c)
	if err != nil {
		return err
	}
	offers := []images.Offer{}
	if a.mesh.keys.Load().Secured() {
		if offers, err = f.Offers(c.Request().Context(), digest); err != nil {
			return err
		}
	}
	return c.JSON(http.StatusOK, offers)
}

// getImageParts has a member lay an image out, and answers once it has.
func (a *Appliance) getImageParts(c echo.Context) error {
	f, digest, err := a.imageAsked(c)
	if err != nil {
		return err
	}
	parts, err := f.Parts(c.Request().Context(), c.QueryParam("node"), digest)
	if err != nil {
		return imageFault(err)
	}
	return c.JSON(http.StatusOK, parts)
}

// getImagePiece brings bytes of a layer from a member.
func (a *Appliance) getImagePiece(c echo.Context) error {
	f, digest, err := a.imageAsked(c)
	if err != nil {
		return err
	}
	from, err := strconv.ParseInt(c.QueryParam("from"), 10, 64)
	size, odd := strconv.ParseInt(c.QueryParam("size"), 10, 64)
	if err != nil || odd != nil || from < 0 || size < 1 || size > images.MaxPiece {
		return &gateway.Error{Status: http.StatusBadRequest, Code: "bad_request", Message: "from and size are the bytes wanted of a layer, at most 1 MiB of them"}
	}
	b, err := f.Piece(c.Request().Context(), images.Piece{
		Member: c.QueryParam("node"), Image: digest, Layer: c.QueryParam("layer"), From: from, Size: size,
	})
	if err != nil {
		return imageFault(err)
	}
	return c.Blob(http.StatusOK, echo.MIMEOctetStream, b)
}

func imageFault(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return &gateway.Error{Status: http.StatusNotFound, Code: "not_found", Message: err.Error()}
	}
	return &gateway.Error{Status: http.StatusBadGateway, Code: "fetch_failed", Message: err.Error()}
}

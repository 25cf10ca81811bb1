/* plot.h - curves in a part of a frame, of dots that are smaller than a character: 2 by 4 in a cell
 * of Braille, 1 by 2 in ASCII. */
#ifndef MGC_PLOT_H
#define MGC_PLOT_H

#include "compiler/watch/frame.h"
#include "compiler/watch/watched.h"

typedef struct PlotAsks {
    const char *metric;
    bool log, smooth;
    int zoom; /* the newest 1 / 2^zoom of the steps */
} PlotAsks;

/* Draws into rows [row, row + rows) and columns [column, column + columns): at least 4 and 20. The
 * last two rows have the axis, with marks of events, and its steps. */
void plot_draw(Frame *f, int row, int column, int rows, int columns, const Watched *w,
               const PlotAsks *asks);

#endif

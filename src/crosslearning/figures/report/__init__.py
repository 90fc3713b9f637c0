"""Reports: what is known of runs, as one page that needs nothing else."""

from crosslearning.figures.report.gathering import RunReport, gather
from crosslearning.figures.report.page import PAGE_MARK, report_page

__all__ = ["PAGE_MARK", "RunReport", "gather", "report_page"]

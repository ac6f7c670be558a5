"""Calibration: does the judge keep its error levels on traffic whose truth is known?"""
